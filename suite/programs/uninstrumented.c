/* The fight is real, and the object was built without instrumentation: there is nothing to judge by. */
#include "elements.c"
