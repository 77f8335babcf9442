//! Addresses to names: objects' types, allocation sites, code rows.
