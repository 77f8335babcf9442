//! What a source is by the ending of its name.

/// A source or header of C++.
pub fn is_cpp(extension: &str) -> bool {
    matches!(extension, "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "C" | "H" | "ipp" | "tcc")
        || is_module(extension)
}

/// The interface of a C++ module (GCC, Clang, MSVC, build2), which is a translation unit, too.
pub fn is_module(extension: &str) -> bool {
    matches!(extension, "cppm" | "ccm" | "cxxm" | "c++m" | "ixx" | "mpp" | "mxx")
}
