//! Search over field moves with their bill; patch engine for C sources.
