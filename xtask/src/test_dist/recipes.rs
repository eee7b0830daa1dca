//! `docs/recipes/`, followed to the letter where this machine can. Its README says of each whether that is so.

use super::container::Storage;
use super::installed::Libc;
use super::outcome;
use super::root::Root;
use super::{TestDist, yaml};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

/// Runs a playbook where systemd's directory is empty and `systemctl` only notes what it is told, and shows both.
const WITH_SYSTEMD: &str = r#"
mount -t tmpfs none /etc/systemd/system && "$@" || exit
cat /etc/systemd/system/app.service.d/allocator.conf "$NOTES"
"#;
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$*\" >>\"$NOTES\"
[ \"$1\" != show ] || printf 'LoadState=loaded\\nActiveState=active\\n'\n";
const PRINT_THREADS: &str = "import os
for task in os.listdir('/proc/self/task'): print(open(f'/proc/self/task/{task}/comm').read())";

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let reheap = test.unpacked()?.join("bin/reheap");
    check_names(test)?;
    images(test, &reheap)?;
    ansible(test, &reheap)?;
    systemd(test, &reheap)?;
    kubernetes(test)
}

fn recipe(test: &TestDist<'_>, name: &str) -> PathBuf {
    test.source("docs/recipes").join(name)
}

/// Writes the library of an allocator, as each recipe begins.
fn preload(reheap: &Path, arguments: &[&str], directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let mut command = Command::new(reheap);
    command
        .arg("preload")
        .args(arguments)
        .arg("-o")
        .arg(directory);
    outcome::succeed(&mut command)?;
    let written = fs::read_dir(directory)?.filter_map(Result::ok);
    let mut libraries = written.map(|entry| entry.path());
    let library = libraries.find(|path| path.extension().is_some_and(|end| end == "so"));
    library.context("`reheap preload` wrote no library")
}

/// The table of the README has a line for each.
fn check_names(test: &TestDist<'_>) -> Result<()> {
    let table = fs::read_to_string(recipe(test, "README.md"))?;
    for entry in fs::read_dir(test.source("docs/recipes"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ensure!(
            name == "README.md" || table.contains(&format!("| [{name}]({name}) |")),
            "the table of docs/recipes/README.md has no `{name}`"
        );
    }
    Ok(())
}

fn images(test: &TestDist<'_>, reheap: &Path) -> Result<()> {
    let storage = Storage::new(test)?;
    let rows = [
        (
            "debian",
            Root::debian(test, "bookworm")?,
            Libc::Glibc,
            &["-a", "jemalloc"][..],
            "/usr/local/lib/reheap/libjemalloc.so",
        ),
        (
            "alpine",
            Root::musl(test)?,
            Libc::Musl,
            &["-a", "mimalloc", "--libc", "musl"],
            "/usr/local/lib/reheap/libmimalloc.so",
        ),
    ];
    for (name, root, libc, arguments, library) in rows {
        let context = test.new_directory("context-")?;
        preload(reheap, arguments, &context)?;
        let archive = context.join("base.tar");
        root.archive(&archive)?;
        let (base, image) = (
            format!("localhost/{name}"),
            format!("localhost/{name}-with"),
        );
        storage.import(&archive, &base)?;
        fs::remove_file(&archive)?;
        let dockerfile = recipe(test, &format!("{name}.Dockerfile"));
        storage.build(&dockerfile, &context, &base, &image)?;
        storage
            .run(&base, libc.show_maps())?
            .succeeded()?
            .did_not_say(library)?;
        storage
            .run(&image, libc.show_maps())?
            .succeeded()?
            .said(library)?;
        test.saw(&format!("{name}.Dockerfile: a container maps the library"));
    }
    Ok(())
}

fn ansible(test: &TestDist<'_>, reheap: &Path) -> Result<()> {
    let project = test.new_directory("ansible-")?;
    fs::copy(recipe(test, "ansible.yml"), project.join("ansible.yml"))?;
    let library = preload(reheap, &["-a", "jemalloc"], &project.join("files"))?;
    let directory = project.join("installed");
    let playbook = |more: &[&str]| playbook(test, &project, &directory, more);

    outcome::succeed(&mut playbook(&[])?)?;
    let installed = directory.join("libjemalloc.so");
    ensure!(
        fs::read(&installed)? == fs::read(&library)?,
        "the playbook wrote another library"
    );
    ensure!(
        installed.metadata()?.permissions().mode() & 0o777 == 0o755,
        "the library has other permissions than 0755"
    );
    // A second time there is nothing to do.
    outcome::succeed(&mut playbook(&[])?)?.said("changed=0")?;
    test.saw("ansible.yml: the library is there, and a second run changes nothing");

    let programs = project.join("bin");
    files::write(programs.join("systemctl"), SYSTEMCTL)?;
    fs::set_permissions(
        programs.join("systemctl"),
        fs::Permissions::from_mode(0o755),
    )?;
    let notes = project.join("notes");
    let inner = playbook(&["-e", "service=app"])?;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", WITH_SYSTEMD, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(&project)
        .env("NOTES", &notes)
        .env("PATH", path_with(&programs));
    let library = installed.display();
    outcome::succeed(&mut command)?
        .said(&format!("Environment=LD_PRELOAD={library}\n"))?
        .said("daemon-reload\n")?
        .said("restart app\n")?;
    test.saw("ansible.yml: the service has a drop-in and is started again");
    Ok(())
}

/// Ansible on this machine itself, with another directory.
fn playbook(
    test: &TestDist<'_>,
    project: &Path,
    directory: &Path,
    more: &[&str],
) -> Result<Command> {
    let bin = yaml::environment(test)?.join("bin");
    let mut command = Command::new(bin.join("ansible-playbook"));
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    command
        .args(["-i", "localhost,", "-c", "local", "-e"])
        .arg(variable("directory", directory))
        .arg("-e")
        .arg(variable("ansible_python_interpreter", &bin.join("python3")))
        .args(more)
        .arg("ansible.yml")
        .current_dir(project);
    Ok(command)
}

fn path_with(directory: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", directory.display())
}

/// systemd reads the drop-in without a complaint, and a process with its variables has what they ask for.
fn systemd(test: &TestDist<'_>, reheap: &Path) -> Result<()> {
    let units = test.new_directory("units-")?;
    files::write(
        units.join("app.service"),
        "[Unit]\nDescription=app\n[Service]\nExecStart=/bin/true\n",
    )?;
    let text = fs::read_to_string(recipe(test, "service.conf"))?;
    let dropin = units.join("app.service.d/allocator.conf");
    verify(&units, &dropin, &text)?
        .succeeded()?
        .did_not_say(":")?;
    // It would have been noticed.
    let wrong = text.replace("Environment=LD", "Enviroment=LD");
    verify(&units, &dropin, &wrong)?.said("Unknown key")?;

    let library = preload(reheap, &["-a", "jemalloc"], &units)?;
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let mut process = Command::new("python3");
    process.args(["-c", PRINT_THREADS]);
    for line in text.lines() {
        let variable = line.strip_prefix("Environment=");
        if let Some((key, value)) = variable.and_then(|variable| variable.split_once('=')) {
            let here = value.replace(
                &format!("/usr/local/lib/reheap/{name}"),
                &library.display().to_string(),
            );
            process.env(key, here);
        }
    }
    outcome::succeed(&mut process)?.said("jemalloc_bg_thd")?;
    test.saw("service.conf: systemd reads it, and the allocator reads its options");
    Ok(())
}

fn verify(units: &Path, dropin: &Path, text: &str) -> Result<outcome::Outcome> {
    files::write(dropin, text)?;
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "app.service"])
        // The colon keeps the system's own directories.
        .env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
    outcome::of(&mut command)
}

/// No cluster is here, so only what is said in two places is compared.
fn kubernetes(test: &TestDist<'_>) -> Result<()> {
    let deployment = yaml::read(test, &recipe(test, "kubernetes.yaml"))?;
    let template = &deployment["spec"]["template"];
    ensure!(
        deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"],
        "kubernetes.yaml: the deployment does not select its pods"
    );
    let pod = &template["spec"];
    let (first, app) = (&pod["initContainers"][0], &pod["containers"][0]);
    let (volume, place) = mount(first)?;
    let (of_app, place_in_app) = mount(app)?;
    ensure!(
        volume == of_app && pod["volumes"][0]["name"] == volume,
        "kubernetes.yaml: the volumes have different names"
    );
    let copied = text(&first["command"][2])?;
    let variable = &app["env"][0];
    ensure!(
        variable["name"] == "LD_PRELOAD",
        "kubernetes.yaml: no LD_PRELOAD"
    );
    let loaded = text(&variable["value"])?;
    ensure!(
        copied.strip_prefix(place) == loaded.strip_prefix(place_in_app)
            && loaded.starts_with(place_in_app),
        "kubernetes.yaml: `{copied}` is not what `{loaded}` loads"
    );
    test.saw("kubernetes.yaml: the library is where the program looks for it");
    Ok(())
}

/// The volume that a container has, and where.
fn mount(container: &Value) -> Result<(&str, &str)> {
    let mount = &container["volumeMounts"][0];
    Ok((text(&mount["name"])?, text(&mount["mountPath"])?))
}

fn text(value: &Value) -> Result<&str> {
    value
        .as_str()
        .context("kubernetes.yaml: something is missing")
}
