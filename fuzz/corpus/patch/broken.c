struct open { int a; int b
struct { struct { struct { int c; } } } }
"unterminated
''' ??/ %: <% %>
#if 0
struct s { int x; int y; };
#elif
struct s { int y; R"x( raw )x" };
