//! What the tests of container images share: a directory for programs and images, and the tools that read and run these.

use super::{Outcome, reheap, run, words};
use reheap_image::blob::Blob;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const HELLO: &str =
    "#include <stdio.h>\nint main(int n, char **v) { printf(\"hello %d\\n\", n); return 0; }\n";

/// A file in an image: its path, its permissions and its contents. With the type in its mode it may be a directory, or a
/// link, whose contents are where it leads.
pub(crate) type File<'a> = (&'a str, u32, Vec<u8>);

/// A directory with programs and images.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn directory(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// A C program.
    pub(crate) fn compile(&self, compiler: &str, flags: &str, name: &str, source: &str) -> PathBuf {
        let source = self.write("source.c", source);
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        let mut command = Command::new(compiler);
        command.args(words(flags)).arg(source).arg("-o");
        run(command.arg(self.path(name))).succeeded();
        self.path(name)
    }

    /// A static program for this machine. glibc's, because that needs nothing to be built.
    pub(crate) fn hello(&self) -> PathBuf {
        self.compile("cc", "-static", "hello", HELLO)
    }

    /// `reheap image` in this directory, with logins only from `auth.json`.
    pub(crate) fn image(&self, line: &str) -> Command {
        let mut command = reheap(&format!("image {line}"));
        command
            .current_dir(self.directory())
            .env_remove("SOURCE_DATE_EPOCH")
            .env("REGISTRY_AUTH_FILE", self.path("auth.json"));
        command
    }

    /// What it prints with `--json`.
    #[track_caller]
    pub(crate) fn made(&self, line: &str) -> Value {
        let outcome = run(&mut self.image(&format!("{line} --json")));
        parsed(&outcome.succeeded().stdout)
    }

    /// Runs a tool in this directory.
    #[track_caller]
    pub(crate) fn tool(&self, line: &str) -> Outcome {
        let words = words(line);
        let mut command = Command::new(words[0]);
        run(command.current_dir(self.directory()).args(&words[1..])).succeeded()
    }

    /// Runs an image, with containers of its own.
    #[track_caller]
    pub(crate) fn podman(&self, flags: &str, image: &str, arguments: &str) -> Outcome {
        let mut command = Command::new("podman");
        command
            .current_dir(self.directory())
            .args(self.podman_storage())
            .args(words("run --rm --quiet --network none"))
            .args(words("--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"))
            .args(words(flags))
            .arg(image)
            .args(words(arguments));
        run(&mut command)
    }

    /// The options of podman that keep its containers in this directory.
    pub(crate) fn podman_storage(&self) -> [String; 8] {
        let in_storage = |name: &str| self.path("containers").join(name).display().to_string();
        let (root, run) = (in_storage("root"), in_storage("run"));
        [
            "--storage-driver",
            "vfs",
            "--runtime",
            "runc",
            "--root",
            &root,
            "--runroot",
            &run,
        ]
        .map(str::to_owned)
    }

    pub(crate) fn inspected(&self, image: &str) -> Value {
        parsed(&self.tool(&format!("skopeo inspect {image}")).stdout)
    }

    pub(crate) fn configuration(&self, image: &str) -> Value {
        parsed(
            &self
                .tool(&format!("skopeo inspect --config {image}"))
                .stdout,
        )
    }

    pub(crate) fn manifest(&self, image: &str) -> Value {
        parsed(&self.tool(&format!("skopeo inspect --raw {image}")).stdout)
    }

    pub(crate) fn manifest_digest(&self, image: &str) -> String {
        let manifest = self.tool(&format!("skopeo inspect --raw {image}")).stdout;
        Blob::of_bytes(manifest.into_bytes()).digest().to_string()
    }

    /// What `docker save` would write of an image with these files and this configuration.
    pub(crate) fn docker_archive(&self, name: &str, files: &[File<'_>], config: Value) {
        self.docker_archive_of_layers(name, &[files], config);
    }

    /// Writes an archive of Docker's with several layers.
    pub(crate) fn docker_archive_of_layers(
        &self,
        name: &str,
        layers: &[&[File<'_>]],
        config: Value,
    ) {
        let mut image = tar::Builder::new(Vec::new());
        let (mut names, mut diff_ids) = (Vec::new(), Vec::new());
        for (index, files) in layers.iter().enumerate() {
            let mut layer = tar::Builder::new(Vec::new());
            for (path, mode, contents) in *files {
                match mode & !0o7777 {
                    0o040_000 => layer.append_dir(path, "/").unwrap(),
                    0o120_000 => append_link(&mut layer, path, contents),
                    _ => append(&mut layer, path, *mode, contents),
                }
            }
            let layer = layer.into_inner().unwrap();
            diff_ids.push(Blob::of_bytes(layer.clone()).digest().to_string());
            names.push(format!("{index}/layer.tar"));
            append(&mut image, &names[index], 0o644, &layer);
        }
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let manifest = json!([{"Config": "config.json", "RepoTags": ["app:1"], "Layers": names}]);
        for (name, value) in [("config.json", config), ("manifest.json", manifest)] {
            append(&mut image, name, 0o644, value.to_string().as_bytes());
        }
        self.write(name, image.into_inner().unwrap());
    }

    /// The names of all files, to see that nothing is left.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// What a dynamic program of glibc needs in an image, and what its old versions have beside the libc.
pub(crate) fn glibc_files() -> Vec<File<'static>> {
    let linker = super::glibc_linker();
    let mut files = vec![(
        linker.trim_start_matches('/'),
        0o755,
        fs::read(linker).unwrap(),
    )];
    for (path, name) in [
        ("lib/libc.so.6", "libc.so.6"),
        ("lib/libpthread.so.0", "libpthread.so.0"),
        ("lib/libdl.so.2", "libdl.so.2"),
    ] {
        let directory = format!("/lib/{}-linux-gnu", std::env::consts::ARCH);
        let contents = fs::read(Path::new(&directory).join(name)).unwrap();
        files.push((path, 0o755, contents));
    }
    files
}

/// What a dynamic program of musl needs in an image.
pub(crate) fn musl_files() -> Vec<File<'static>> {
    let linker = super::image::musl_linker();
    let contents = fs::read(&linker).unwrap();
    vec![(linker.leak().trim_start_matches('/'), 0o755, contents)]
}

fn append_link(archive: &mut tar::Builder<Vec<u8>>, path: &str, target: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    let target = std::str::from_utf8(target).unwrap();
    archive.append_link(&mut header, path, target).unwrap();
}

/// Adds a file to an archive.
pub(crate) fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, contents: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(contents.len() as u64);
    archive.append_data(&mut header, path, contents).unwrap();
}

#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
