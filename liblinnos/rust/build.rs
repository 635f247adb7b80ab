// SPDX-License-Identifier: MIT
//! Links liblinnos: statically from LINNOS_LIB_DIR if it is set, else the installed library.

fn main() {
    println!("cargo:rerun-if-env-changed=LINNOS_LIB_DIR");
    match std::env::var("LINNOS_LIB_DIR") {
        Ok(folder) => {
            // Relative to the crate's folder, in which this runs; the linker runs elsewhere.
            let folder = std::fs::canonicalize(&folder)
                .unwrap_or_else(|error| panic!("LINNOS_LIB_DIR={folder}: {error}"));
            let folder = folder.display();
            println!("cargo:rerun-if-changed={folder}/liblinnos.a");
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-link-lib=static=linnos");
            println!("cargo:rustc-link-lib=uring");
            println!("cargo:rustc-link-lib=m");
        }
        Err(_) => println!("cargo:rustc-link-lib=linnos"),
    }
}
