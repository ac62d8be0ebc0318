//! Asks pkg-config where libmaru is, and has programs look for it there when they run.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let asked = Command::new("pkg-config").args(["--libs", "maru >= 0.1"]).output();
    let said = match asked {
        Ok(said) if said.status.success() => String::from_utf8_lossy(&said.stdout).into_owned(),
        Ok(said) => panic!("libmaru is not found: {}", String::from_utf8_lossy(&said.stderr).trim()),
        Err(error) => panic!("pkg-config cannot be started ({error}), so libmaru is not found"),
    };
    for word in said.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        } else if word.starts_with("-Wl,") {
            println!("cargo:rustc-link-arg={word}");
        }
    }
}
