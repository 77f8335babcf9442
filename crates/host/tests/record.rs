//! `record` and `cc` on real executables: what works, and what is refused with which exit status.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tussle_host::record::{RecordError, RecordOptions, object_file, record};
use tussle_testkit::{need, wish};

const PROGRAM: &str = "#include <pthread.h>\nvolatile long pair[2];\n\
    static void *run(void *p) { for (int i = 0; i < 20000; i++) pair[(long)p]++; return 0; }\n\
    int main(void) { pthread_t t; pthread_create(&t, 0, run, (void *)1); run(0); pthread_join(t, 0); return 7; }\n";

struct Lab(tempfile::TempDir);

impl Lab {
    #[track_caller]
    fn new() -> Option<Lab> {
        if !need("gcc") {
            return None;
        }
        let lab = Lab(tempfile::tempdir().unwrap());
        std::fs::write(lab.at("p.c"), PROGRAM).unwrap();
        Some(lab)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a compiler; false if it cannot do that here.
    fn compile(&self, compiler: &str, args: &str) -> bool {
        let out = Command::new(compiler).args(args.split(' ')).current_dir(self.0.path()).output();
        out.is_ok_and(|o| o.status.success())
    }

    fn check_refusal(&self, name: &str, code: u8, says: &str) {
        match record(&RecordOptions::new(vec![self.at(name).into_os_string()])) {
            Ok(_) => panic!("{name} was recorded"),
            Err(e) => {
                assert_eq!(e.exit_code(), code, "{name}: {e}");
                assert!(e.to_string().contains(says), "{name}: {e}");
            }
        }
    }

    fn check_recorded(&self, program: &Path) {
        let r = record(&RecordOptions::new(vec![program.as_os_str().to_os_string()])).unwrap();
        assert_eq!(r.status, 7);
        let n: u64 = r.evidence.accesses.iter().map(|a| a.reads + a.writes).sum();
        assert!(n >= 80_000, "{n} accesses");
        assert_eq!(r.evidence.processes[0].end, "exited 7");
        assert!(r.evidence.processes[0].build_id.is_some() && r.evidence.run.complete);
    }
}

#[test]
fn an_executable_that_loads_libtsan_is_recorded_as_it_is() {
    let Some(lab) = Lab::new() else { return };
    if !need("gcc -fsanitize=thread") {
        return;
    }
    assert!(lab.compile("gcc", "-g -O1 -fsanitize=thread p.c -o p -lpthread"));
    lab.check_recorded(&lab.at("p"));
}

#[test]
fn an_executable_with_the_runtime_inside_is_recorded() {
    let Some(lab) = Lab::new() else { return };
    let object = object_file().unwrap();
    assert!(lab.compile("gcc", "-g -O1 -fsanitize=thread -c p.c"));
    assert!(lab.compile("gcc", &format!("p.o {} -o p -lpthread", object.display())));
    lab.check_recorded(&lab.at("p"));
    assert!(lab.compile("strip", "p"));
    lab.check_recorded(&lab.at("p"));
}

#[test]
fn addresses_of_programs_at_a_fixed_place_are_their_own() {
    let Some(lab) = Lab::new() else { return };
    let object = object_file().unwrap();
    for (flags, fixed) in [("-no-pie -fno-pie", true), ("-pie -fPIE", false)] {
        assert!(lab.compile("gcc", &format!("-g -O1 -fsanitize=thread {flags} -c p.c")));
        assert!(lab.compile("gcc", &format!("p.o {} {flags} -o p -lpthread", object.display())));
        let r = record(&RecordOptions::new(vec![lab.at("p").into_os_string()])).unwrap();
        let own = r.evidence.modules.iter().find(|m| m.path == lab.at("p").display().to_string()).unwrap();
        assert_eq!(own.bias == 0, fixed, "{flags}");
        assert!(own.start > 0);
    }
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let Some(lab) = Lab::new() else { return };
    lab.check_refusal("nothing", 127, "not found");
    lab.check_refusal("p.c", 126, "chmod +x");
    assert!(lab.compile("gcc", "p.c -o plain -lpthread"));
    lab.check_refusal("plain", 125, "not instrumented: build it with `tussle cc`");
    if need("gcc -fsanitize=thread -static-libtsan") {
        assert!(lab.compile("gcc", "-fsanitize=thread -static-libtsan p.c -o inside"));
        lab.check_refusal("inside", 125, "linked in statically");
    }
    if wish("gcc -m32") {
        assert!(lab.compile("gcc", "-m32 p.c -o small"));
        lab.check_refusal("small", 125, "32-bit");
    }
    let libs = Command::new("gcc").arg("-print-file-name=libtsan.so.2").output().unwrap().stdout;
    let libs = PathBuf::from(String::from_utf8_lossy(&libs).trim());
    if let Some(dir) = libs.parent().filter(|d| d.is_absolute()) {
        let args = format!("-fsanitize=thread p.c -o rpath -Wl,--disable-new-dtags,-rpath,{}", dir.display());
        assert!(lab.compile("gcc", &args));
        lab.check_refusal("rpath", 125, "DT_RPATH");
    }
    executable(&lab.at("script"), b"#!/bin/sh\nexit 0\n");
    lab.check_refusal("script", 125, "it is a script for `/bin/sh`");
    executable(&lab.at("text"), b"hello");
    lab.check_refusal("text", 126, "not an ELF executable");
    let bytes = std::fs::read(lab.at("plain")).unwrap();
    for cut in [4, 19, 40, 200, 1000, 3000] {
        executable(&lab.at("cut"), &bytes[..cut]);
        let r = record(&RecordOptions::new(vec![lab.at("cut").into_os_string()]));
        assert!(
            matches!(r.map(|r| r.status), Err(e) if (125..=126).contains(&e.exit_code())),
            "cut at {cut}"
        );
    }
    let mut arm = bytes.clone();
    arm[18] = 183;
    executable(&lab.at("arm"), &arm);
    lab.check_refusal("arm", 125, "64-bit Arm");
}

fn executable(at: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(at, bytes).unwrap();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_launcher_is_recorded_for_what_it_starts() {
    let Some(lab) = Lab::new() else { return };
    if !need("gcc -fsanitize=thread") {
        return;
    }
    assert!(lab.compile("gcc", "-g -O1 -fsanitize=thread p.c -o p -lpthread"));
    executable(&lab.at("script"), format!("#!/bin/sh\n{}\n", lab.at("p").display()).as_bytes());
    let mut o = RecordOptions::new(vec![lab.at("script").into_os_string()]);
    o.children = true;
    let r = record(&o).unwrap();
    assert_eq!((r.status, r.evidence.processes.len()), (7, 1));
}

#[test]
fn a_program_that_never_reports_is_an_error() {
    let Some(lab) = Lab::new() else { return };
    executable(&lab.at("script"), b"#!/bin/sh\nexit 3\n");
    let mut o = RecordOptions::new(vec![OsString::from(lab.at("script"))]);
    o.children = true;
    let Err(RecordError::NoReport { status, .. }) = record(&o) else {
        panic!("recorded nothing, said nothing")
    };
    assert_eq!(status, 3);
}

/// The variable that says where to record is gone: that is the reason, and not how the program was built.
#[test]
fn a_launcher_that_clears_the_environment_is_named_as_the_reason() {
    let Some(lab) = Lab::new() else { return };
    if !need("gcc -fsanitize=thread") {
        return;
    }
    assert!(lab.compile("gcc", "-g -O1 -fsanitize=thread p.c -o p -lpthread"));
    let program = lab.at("p").display().to_string();
    executable(&lab.at("script"), format!("#!/bin/sh\nexec env -i {program}\n").as_bytes());
    let hint = |command: &[&str], starts: &[&str]| {
        let mut o = RecordOptions::new(command.iter().map(OsString::from).collect());
        (o.children, o.starts) = (true, starts.iter().map(Into::into).collect());
        match record(&o) {
            Err(RecordError::NoReport { hint, .. }) => hint,
            _ => panic!("it recorded something"),
        }
    };
    let script = lab.at("script").display().to_string();
    for said in [hint(&["env", "-i", &program], &[]), hint(&[&script], &[&program])] {
        assert!(said.starts_with("p is instrumented") && said.contains("env -i"), "{said}");
    }
    assert!(hint(&[&script], &[]).contains("none of the programs"));
}
