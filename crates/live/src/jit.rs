//! `/tmp/perf-PID.map`: names of code made at run time, as JIT compilers write them (`perf help record`, "JIT").

/// Functions kept of one file.
const FUNCTIONS_MAX: usize = 1 << 20;

/// Code made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// As the compiler calls it.
    pub name: String,
}

/// Names by address; of two at one place the later one counts.
#[derive(Clone, Debug, Default)]
pub struct Names {
    functions: Vec<Function>,
}

impl Names {
    /// Reads lines of `start size name`, both numbers hexadecimal; others are left out.
    pub fn read(text: &str) -> Names {
        let line = |l: &str| -> Option<Function> {
            let mut words = l.splitn(3, ' ');
            let number = |w: &str| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            let name = words.next()?.trim().to_string();
            (size > 0 && !name.is_empty()).then_some(Function { start, size, name })
        };
        let mut functions: Vec<Function> = text.lines().filter_map(line).take(FUNCTIONS_MAX).collect();
        functions.sort_by_key(|f| f.start);
        Names { functions }
    }

    /// The function that holds an address.
    pub fn find(&self, address: u64) -> Option<&Function> {
        let end = self.functions.partition_point(|f| f.start <= address);
        self.functions[..end].iter().rev().take(16).find(|f| address - f.start < f.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let names =
            Names::read("1000 20 LazyCompile:~add /srv/x.js:3\nbad line\n1000 10 newer\n2000 0 empty\n");
        assert_eq!(names.find(0x1005).unwrap().name, "newer");
        assert_eq!(names.find(0x1015).unwrap().name, "LazyCompile:~add /srv/x.js:3");
        assert_eq!((names.find(0x1020), names.find(0xfff), names.find(0x2000)), (None, None, None));
    }
}
