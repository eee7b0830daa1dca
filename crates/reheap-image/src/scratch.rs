//! An image from programs alone: what a static program expects of a system, and no more.
//!
//! That is certificates, names for users, and a place for temporary files. There is no shell, no package manager and no
//! libc. Programs are in `/usr/local/bin`: it is in everybody's PATH, no program's name is in the way of a directory
//! such as `/tmp` there, and other images keep it free for this.
//!
//! What changes rarely is in the lowest layers, and the programs are in the last one. So a new version of a program is
//! one new layer, and images of different programs share the others.

use crate::added::{self, Checked};
use crate::certificates::{self, Certificates};
use crate::error::ImageError;
use crate::error::ReadError;
use crate::layer::{Compression, Content, Entry, Layer, Stack};
use crate::sealed::Sealed;
use crate::workplace::Workplace;
use crate::{Image, Platform};
use oci_spec::image::{ConfigBuilder, ImageConfigurationBuilder};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where programs are.
pub const PROGRAMS: &str = "/usr/local/bin";
/// Docker sets it in every image, and not all engines have a default.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where a libc looks for time zones.
const TIME_ZONES: &str = "/usr/share/zoneinfo";
/// Copies of all zones, with and without leap seconds.
const TIME_ZONE_COPIES: [&str; 2] = ["posix", "right"];

/// Who runs the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl User {
    /// Nobody on any system, and the convention of images without a shell.
    pub const DEFAULT: Self = Self {
        uid: 65532,
        gid: 65532,
    };
}

/// A program, and what it is called in the image.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its file on this machine.
    pub file: PathBuf,
    /// The last part of its path.
    pub name: String,
}

impl Program {
    /// Its path in an image.
    pub fn path(&self) -> PathBuf {
        Path::new(PROGRAMS).join(&self.name)
    }
}

/// What goes into an image.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// What the programs are for.
    pub platform: Platform,
    /// The first is the one that starts.
    pub programs: Vec<Program>,
    /// Libraries and what leads to them, by their path in the image.
    pub libraries: Vec<(PathBuf, Entry)>,
    /// Files and directories of this machine, and their path in the image.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Who runs the programs.
    pub user: User,
    /// The authorities that they trust.
    pub certificates: Option<Certificates>,
    /// A directory with time zones.
    pub time_zones: Option<PathBuf>,
    /// What starts; the first program by default.
    pub entry_point: Vec<String>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<String>,
    /// Ports, as `80/tcp`.
    pub ports: Vec<String>,
    /// What is said about the image, both in its configuration and in its manifest.
    pub labels: BTreeMap<String, String>,
    /// What only the manifest says.
    pub annotations: BTreeMap<String, String>,
    /// The time of everything, in seconds since 1970.
    pub time: u64,
    /// How layers are compressed.
    pub compression: Compression,
}

impl Recipe {
    /// Makes the image.
    ///
    /// # Errors
    /// When something cannot be read or written, or two things are at one place.
    pub fn make(&self, workplace: &Workplace<'_>) -> Result<Image, ImageError> {
        let stack = self.stack()?;
        let mut annotations = self.labels.clone();
        annotations.extend(self.annotations.clone());
        Ok(Image {
            platform: self.platform.clone(),
            configuration: self.configuration(),
            layers: stack.write(self.compression, self.time, workplace)?,
            annotations,
        })
    }

    fn stack(&self) -> Result<Stack, ImageError> {
        let mut stack = Stack::default();
        self.add_system(&mut stack)?;
        self.add_own(&mut stack)?;
        Ok(stack)
    }

    /// Makes the image on top of another one, which keeps its users, certificates and settings. Its user stays unless
    /// there is another.
    ///
    /// # Errors
    /// When something cannot be read or written, or the other image has a directory where a file goes.
    pub fn make_on(
        &self,
        base: &Checked,
        user: Option<User>,
        workplace: &Workplace<'_>,
    ) -> Result<(Sealed, Vec<Layer>), ReadError> {
        let mut stack = Stack::default();
        self.add_own(&mut stack)?;
        let layers = stack
            .fit(&base.tree)?
            .write(self.compression, self.time, workplace)?;
        let mut settings = base.settings.clone();
        self.set_on(added::config_of(&mut settings)?, user)?;
        settings["created"] = self.created().into();
        for layer in &layers {
            added::append_layer(&mut settings, layer, "reheap image")?;
        }
        let mut annotations = self.labels.clone();
        annotations.extend(self.annotations.clone());
        let sealed = base.with_layers(&layers, &settings, &annotations)?;
        Ok((sealed, layers))
    }

    fn set_on(&self, config: &mut serde_json::Value, user: Option<User>) -> Result<(), ReadError> {
        config["Entrypoint"] = self.command().into();
        // It would be arguments of the program now.
        config.as_object_mut().map(|config| config.remove("Cmd"));
        if let Some(User { uid, gid }) = user {
            config["User"] = format!("{uid}:{gid}").into();
        }
        let variables: Vec<(String, String)> = self
            .environment
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        added::set_variables(config, &variables)?;
        added::extend(config, "Labels", &self.labels)?;
        for port in &self.ports {
            match &mut config["ExposedPorts"] {
                serde_json::Value::Object(ports) => {
                    ports.insert(port.clone(), serde_json::json!({}));
                }
                none => *none = serde_json::json!({port: {}}),
            }
        }
        Ok(())
    }

    /// What starts.
    fn command(&self) -> Vec<String> {
        let first = self.programs.iter().take(1);
        if self.entry_point.is_empty() {
            first
                .map(|program| program.path().display().to_string())
                .collect()
        } else {
            self.entry_point.clone()
        }
    }

    fn created(&self) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.time);
        humantime::format_rfc3339_seconds(time).to_string()
    }

    /// Adds what is not in every image.
    fn add_own(&self, stack: &mut Stack) -> Result<(), ImageError> {
        if let Some(zones) = &self.time_zones {
            stack.begin("time zones");
            add_time_zones(stack, zones)?;
        }
        stack.begin("libraries");
        for (path, entry) in &self.libraries {
            stack.add(path, entry.clone())?;
        }
        stack.begin("files");
        for (source, target) in &self.files {
            self.add_files(stack, source, target)?;
        }
        let names: Vec<String> = self
            .programs
            .iter()
            .map(|p| p.path().display().to_string())
            .collect();
        stack.begin(names.join(", "));
        for program in &self.programs {
            stack.add(&program.path(), Entry::program(&program.file))?;
        }
        Ok(())
    }

    fn add_system(&self, stack: &mut Stack) -> Result<(), ImageError> {
        stack.begin(match &self.certificates {
            Some(_) => "users, /tmp, CA certificates",
            None => "users, /tmp",
        });
        let users = users(self.user);
        let with_mode = |mode: u32, owner: (u32, u32)| Entry {
            mode,
            owner,
            ..Entry::directory()
        };
        stack.add(Path::new("/tmp"), with_mode(0o1777, (0, 0)))?;
        for user in &users {
            if let Some(home) = user.home() {
                stack.add(&home, with_mode(0o700, (user.uid, user.gid)))?;
            }
        }
        let lines = |line: fn(&Named) -> String| users.iter().map(line).collect::<String>();
        stack.add(Path::new("/etc/passwd"), Entry::bytes(lines(Named::passwd)))?;
        stack.add(Path::new("/etc/group"), Entry::bytes(lines(Named::group)))?;
        // Without it, older versions of Go and glibc ask name servers before they look into /etc/hosts.
        let services = "hosts: files dns\n";
        stack.add(Path::new("/etc/nsswitch.conf"), Entry::bytes(services))?;
        if let Some(certificates) = &self.certificates {
            let bundle = Entry::bytes(certificates.pem.clone());
            stack.add(Path::new(certificates::BUNDLE), bundle)?;
            for (path, target) in certificates::LINKS {
                stack.add(Path::new(path), Entry::link(target))?;
            }
        }
        Ok(())
    }

    /// Adds a file, or what is in a directory. The user's files replace those that reheap would bring.
    fn add_files(&self, stack: &mut Stack, source: &Path, target: &Path) -> Result<(), ImageError> {
        // What the user names may be a link; what is found below it stays one.
        let named = fs::canonicalize(source).map_err(ImageError::io("read", source))?;
        let mut found = vec![(named, target.to_owned())];
        while let Some((source, target)) = found.pop() {
            let entry = Entry::copy(&source)?;
            if matches!(entry.content, Content::Directory) {
                let entries = fs::read_dir(&source).map_err(ImageError::io("read", &source))?;
                for entry in entries {
                    let name = entry.map_err(ImageError::io("read", &source))?.file_name();
                    found.push((source.join(&name), target.join(&name)));
                }
            } else if self.is_of_system(stack, &target) {
                stack.remove(&target);
            }
            if !(matches!(entry.content, Content::Directory) && target == Path::new("/")) {
                stack.add(&target, entry)?;
            }
        }
        Ok(())
    }

    fn is_of_system(&self, stack: &Stack, path: &Path) -> bool {
        let is_file = |entry: &Entry| matches!(entry.content, Content::Bytes(_) | Content::Link(_));
        path.starts_with("/etc") && stack.at(path).is_some_and(is_file)
    }

    fn configuration(&self) -> serde_json::Value {
        let mut environment = self.environment.clone();
        if !environment.iter().any(|line| line.starts_with("PATH=")) {
            environment.insert(0, PATH.to_owned());
        }
        let mut config = ConfigBuilder::default()
            .user(format!("{}:{}", self.user.uid, self.user.gid))
            .env(environment)
            .entrypoint(self.command())
            .working_dir("/");
        if !self.ports.is_empty() {
            config = config.exposed_ports(self.ports.clone());
        }
        if !self.labels.is_empty() {
            config = config.labels(HashMap::from_iter(self.labels.clone()));
        }
        let configuration = ImageConfigurationBuilder::default()
            .created(self.created())
            .os("linux")
            .architecture(self.platform.architecture.as_str())
            .config(config.build().expect("it has all fields"));
        let configuration = match &self.platform.variant {
            Some(variant) => configuration.variant(variant.as_str()),
            None => configuration,
        };
        let configuration = configuration.build().expect("it has all fields");
        serde_json::to_value(configuration).expect("it is JSON")
    }
}

fn add_time_zones(stack: &mut Stack, zones: &Path) -> Result<(), ImageError> {
    let mut found = vec![PathBuf::new()];
    while let Some(below) = found.pop() {
        let source = zones.join(&below);
        for entry in fs::read_dir(&source).map_err(ImageError::io("read", &source))? {
            let name = entry.map_err(ImageError::io("read", &source))?.file_name();
            let path = below.join(&name);
            if TIME_ZONE_COPIES.iter().any(|copy| path == Path::new(copy)) {
                continue;
            }
            let source = zones.join(&path);
            let mut entry = Entry::copy(&source)?;
            // Where the system has its zone of /etc, this is one of the machine's settings.
            if matches!(&entry.content, Content::Link(target) if target.is_absolute()) {
                continue;
            }
            match &mut entry.content {
                Content::Directory => found.push(path),
                _ => {
                    let target = Path::new(TIME_ZONES).join(path);
                    stack.add(&target, entry)?;
                }
            }
        }
    }
    Ok(())
}

/// A user and a group of the same name.
struct Named {
    name: String,
    uid: u32,
    gid: u32,
}

impl Named {
    fn home(&self) -> Option<PathBuf> {
        match self.name.as_str() {
            "nobody" => None,
            "root" => Some("/root".into()),
            name => Some(Path::new("/home").join(name)),
        }
    }

    fn passwd(&self) -> String {
        let Self { name, uid, gid } = self;
        let home = self.home().unwrap_or_else(|| "/nonexistent".into());
        format!(
            "{name}:x:{uid}:{gid}:{name}:{}:/sbin/nologin\n",
            home.display()
        )
    }

    fn group(&self) -> String {
        format!("{}:x:{}:\n", self.name, self.gid)
    }
}

/// Root, nobody, and the user of the image.
fn users(user: User) -> Vec<Named> {
    let named = |name: &str, uid: u32, gid: u32| Named {
        name: name.to_owned(),
        uid,
        gid,
    };
    let mut users = vec![named("root", 0, 0), named("nobody", 65534, 65534)];
    if user == User::DEFAULT {
        users.push(named("nonroot", user.uid, user.gid));
    } else if !users.iter().any(|known| known.uid == user.uid) {
        users.push(named("app", user.uid, user.gid));
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(user: User) -> String {
        users(user).iter().map(Named::passwd).collect()
    }

    #[test]
    fn the_user_of_an_image_has_a_name_and_a_home() {
        let default = names(User::DEFAULT);
        assert!(
            default.ends_with("nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"),
            "{default}"
        );
        let other = names(User { uid: 1000, gid: 50 });
        assert!(
            other.ends_with("app:x:1000:50:app:/home/app:/sbin/nologin\n"),
            "{other}"
        );
        assert_eq!(names(User { uid: 0, gid: 0 }).lines().count(), 2);
    }
}
