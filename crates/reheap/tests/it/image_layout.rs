//! Directories and archives of images: which of several reheap takes, how to name another, and how a directory is
//! replaced.

use crate::common::workshop::{Workshop, parsed};
use crate::common::{Outcome, reheap, run};
use reheap_image::blob::Blob;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// What skopeo leaves of two images in one directory.
fn two_images() -> Workshop {
    let workshop = Workshop::new();
    for name in ["cat", "env"] {
        workshop.made(&format!("/bin/{name} --with-libraries -o {name}.tar"));
        workshop.tool(&format!(
            "skopeo copy --quiet oci-archive:{name}.tar oci:layout:{name}"
        ));
    }
    workshop
}

fn image(workshop: &Workshop, line: &str) -> Outcome {
    run(&mut workshop.image(line))
}

fn inspected(workshop: &Workshop, subject: &str) -> Outcome {
    let mut command = reheap("inspect");
    run(command.arg(subject).current_dir(workshop.directory()))
}

/// Puts a document into a layout, and gives what an index says about it.
fn kept(workshop: &Workshop, document: &Value) -> Value {
    let bytes = document.to_string().into_bytes();
    let size = bytes.len();
    let digest = Blob::of_bytes(bytes.clone()).digest().to_string();
    workshop.write(&format!("layout/blobs/{}", digest.replace(':', "/")), bytes);
    json!({"mediaType": document["mediaType"], "size": size, "digest": digest})
}

fn index(workshop: &Workshop) -> Value {
    parsed(&fs::read_to_string(workshop.path("layout/index.json")).unwrap())
}

fn set_index(workshop: &Workshop, manifests: &Value) {
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    workshop.write("layout/index.json", index.to_string());
}

#[test]
fn one_of_several_images_is_named_as_skopeo_names_it() {
    let workshop = two_images();
    image(&workshop, "--add mimalloc layout -o added.tar")
        .ended_with(1)
        .said(&[
            "cannot add mimalloc to `layout`: there are 2 images in it",
            "hint: name one of them: oci:layout:cat, oci:layout:env",
        ]);
    for name in ["cat", "env"] {
        let added = workshop.made(&format!("--add mimalloc oci:layout:{name} -o added.tar"));
        assert_eq!(added["program"], format!("/usr/local/bin/{name}"));
        let shown = inspected(&workshop, &format!("oci:layout:{name}"))
            .succeeded()
            .stdout;
        assert!(
            shown.starts_with(&format!(
                "oci:layout:{name} /usr/local/bin/{name}: stock glibc"
            )),
            "{shown}"
        );
        let digest = workshop.manifest_digest(&format!("oci-archive:{name}.tar"));
        let added = workshop.made(&format!("--add mimalloc oci:layout@{digest} -o added.tar"));
        assert_eq!(added["program"], format!("/usr/local/bin/{name}"));
    }
    image(&workshop, "--add mimalloc oci:layout:dog -o added.tar")
        .ended_with(1)
        .said(&["there is no image `dog` in it, but `cat`, `env`"]);
    inspected(&workshop, "oci:layout:dog")
        .ended_with(1)
        .said(&["there is no image `dog` in it, but `cat`, `env`"]);
    // A path may look like such a name.
    fs::rename(workshop.path("cat.tar"), workshop.path("oci:cat.tar")).unwrap();
    workshop.made("--add mimalloc oci:cat.tar -o added.tar");
}

#[test]
fn an_archive_of_docker_has_images_by_their_whole_names() {
    let workshop = Workshop::new();
    for name in ["cat", "env"] {
        workshop.made(&format!(
            "/bin/{name} --with-libraries --format docker -o {name}.tar"
        ));
    }
    let storage = "--root storage --runroot storage-run --storage-driver vfs";
    for name in ["cat", "env"] {
        workshop.tool(&format!("podman {storage} load --quiet -i {name}.tar"));
    }
    workshop.tool(&format!(
        "podman {storage} save --quiet --multi-image-archive -o both.tar localhost/cat localhost/env"
    ));
    image(&workshop, "--add mimalloc both.tar -o added.tar")
        .ended_with(1)
        .said(&[
            "there are 2 images in it",
            "docker-archive:both.tar:localhost/cat:latest",
        ]);
    for name in ["localhost/env:latest", "env:latest"] {
        let added = workshop.made(&format!(
            "--add mimalloc docker-archive:both.tar:{name} -o added.tar"
        ));
        assert_eq!(added["program"], "/usr/local/bin/env");
    }
}

#[test]
fn whoever_names_no_variant_of_a_processor_gets_the_usual_one() {
    let workshop = two_images();
    let listed = index(&workshop)["manifests"].clone();
    let of = |entry: usize, variant: Option<&str>| {
        let mut listed = listed[entry].clone();
        listed["platform"] = json!({"os": "linux", "architecture": "amd64"});
        if let Some(variant) = variant {
            listed["platform"]["variant"] = variant.into();
        }
        listed.as_object_mut().unwrap().remove("annotations");
        listed
    };
    // The variants are told apart by their programs.
    let (env, cat) = (Some("v3"), None);
    let nested = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [of(1, env), of(0, cat)],
    });
    set_index(&workshop, &json!([kept(&workshop, &nested)]));
    let program = |flags: &str| {
        workshop.made(&format!("--add mimalloc layout -o added.tar {flags}"))["program"].clone()
    };
    for flags in ["", "--platform linux/amd64", "--platform linux/amd64/v1"] {
        assert_eq!(program(flags), "/usr/local/bin/cat");
    }
    assert_eq!(program("--platform linux/amd64/v3"), "/usr/local/bin/env");
    let shown = inspected(&workshop, "layout").succeeded().stdout;
    assert!(shown.starts_with("layout /usr/local/bin/cat"), "{shown}");

    set_index(&workshop, &json!([of(1, Some("v3")), of(0, Some("v2"))]));
    image(&workshop, "--add mimalloc layout -o added.tar")
        .ended_with(1)
        .said(&[
            "the image is not for linux/amd64, but for linux/amd64/v3, linux/amd64/v2",
            "hint: choose one of these with --platform",
        ]);
    assert_eq!(program("--platform linux/amd64/v2"), "/usr/local/bin/cat");
}

#[test]
fn what_belongs_to_an_image_is_none_to_choose_from() {
    let workshop = two_images();
    let listed = index(&workshop)["manifests"].clone();
    let empty = kept(&workshop, &json!({}));
    let manifest = |artifact_type: Option<&str>, configuration: &str| {
        let mut manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": configuration, "digest": empty["digest"], "size": 2},
            "layers": [], "subject": listed[0],
        });
        if let Some(artifact_type) = artifact_type {
            manifest["artifactType"] = artifact_type.into();
        }
        kept(&workshop, &manifest)
    };
    let sbom = manifest(
        Some("application/spdx+json"),
        "application/vnd.oci.empty.v1+json",
    );
    let signature = manifest(None, "application/vnd.oci.image.config.v1+json");
    let mut named = sbom.clone();
    named["artifactType"] = "application/spdx+json".into();
    for artifact in [sbom.clone(), signature, named] {
        set_index(&workshop, &json!([artifact, listed[0]]));
        let added = workshop.made("--add mimalloc layout -o added.tar");
        assert_eq!(added["program"], "/usr/local/bin/cat");
        assert_eq!(added["left_out"], json!([]));
        let shown = inspected(&workshop, "layout").succeeded().stdout;
        assert!(shown.starts_with("layout /usr/local/bin/cat"), "{shown}");
    }
    // Alone it is refused as what it is.
    set_index(&workshop, &json!([sbom]));
    image(&workshop, "--add mimalloc layout -o added.tar")
        .ended_with(1)
        .said(&["reheap does not know the media type `application/vnd.oci.empty.v1+json`"]);
}

#[test]
fn a_directory_is_replaced_where_two_names_cannot_be_exchanged() {
    let workshop = Workshop::new();
    let source = include_str!("../programs/no_exchange.c");
    let refusing = workshop.compile("cc", "", "no-exchange", source);
    let written = |program: &str| {
        let mut command = Command::new(&refusing);
        command.arg(env!("CARGO_BIN_EXE_reheap")).args([
            "image",
            program,
            "--with-libraries",
            "-o",
            "replaced",
        ]);
        run(command.current_dir(workshop.directory()))
    };
    let names = ["no-exchange", "replaced", "source.c"];
    for program in ["/bin/cat", "/usr/bin/env"] {
        written(program).succeeded();
        let entry_point = &workshop.configuration("oci:replaced")["config"]["Entrypoint"][0];
        let name = program.rsplit('/').next().unwrap();
        assert_eq!(*entry_point, format!("/usr/local/bin/{name}"));
        assert_eq!(workshop.names(), names);
    }
}
