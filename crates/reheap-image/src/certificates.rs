//! Certificates of authorities, and where TLS clients look for them.
//!
//! A bundle is checked before it is packed: an image whose bundle is empty or cut off fails only when it runs.

use crate::error::ImageError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the bundle is in an image: Debian's place, which Go, OpenSSL and rustls-native-certs look at first.
pub const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Other places where clients look, and which lead there.
pub const LINKS: [(&str, &str); 5] = [
    // OpenSSL of Alpine, Arch and FreeBSD, LibreSSL, curl
    ("/etc/ssl/cert.pem", "certs/ca-certificates.crt"),
    // SUSE
    ("/etc/ssl/ca-bundle.pem", "certs/ca-certificates.crt"),
    // Fedora and RHEL
    ("/etc/pki/tls/certs/ca-bundle.crt", BUNDLE),
    // their OpenSSL
    ("/etc/pki/tls/cert.pem", BUNDLE),
    // OpenSSL as its sources configure it, and so Rust's crate `openssl` with the feature `vendored`
    ("/usr/local/ssl/cert.pem", BUNDLE),
];

/// Where distributions keep their bundle.
const OF_MACHINES: [&str; 6] = [
    BUNDLE,
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A bundle of certificates.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// As a file.
    pub pem: Vec<u8>,
    /// How many there are.
    pub count: usize,
    /// The file that they are from; none for Mozilla's, which reheap brings.
    pub from: Option<PathBuf>,
}

impl Certificates {
    /// Those that a machine trusts, or else Mozilla's.
    ///
    /// # Errors
    /// When the machine has a bundle that cannot be used: it is there for a reason, and another is not what it trusts.
    pub fn of_machine() -> Result<Self, ImageError> {
        let is_there = |path: &&&str| Path::new(path).is_file();
        match OF_MACHINES.iter().find(is_there) {
            Some(path) => Self::read(Path::new(path)),
            None => Ok(Self::of_mozilla()),
        }
    }

    /// Those in a PEM file.
    ///
    /// # Errors
    /// When there are none, or one is damaged.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        let pem = fs::read(path).map_err(ImageError::io("read", path))?;
        let unusable = |reason: String| ImageError::NoCertificates {
            path: path.to_owned(),
            reason,
        };
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let count = found.map_err(|error| unusable(error.to_string()))?.len();
        if count == 0 {
            return Err(unusable("there are none in it in PEM form".to_owned()));
        }
        Ok(Self {
            pem,
            count,
            from: Some(path.to_owned()),
        })
    }

    /// Each as DER.
    pub(crate) fn ders(&self) -> Result<Vec<Vec<u8>>, ImageError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.pem)
            .map(|der| der.map(|der| der.to_vec()))
            .collect();
        found.map_err(|error| ImageError::NoCertificates {
            path: self.from.clone().unwrap_or_default(),
            reason: error.to_string(),
        })
    }

    /// Those that Mozilla trusts.
    pub fn of_mozilla() -> Self {
        let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        let mut pem = String::new();
        for certificate in all {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            let text = STANDARD.encode(certificate.as_ref());
            // RFC 7468, 2: lines of 64 characters
            for line in text.as_bytes().chunks(64) {
                pem.push_str(str::from_utf8(line).expect("base64 is ASCII"));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        Self {
            pem: pem.into_bytes(),
            count: all.len(),
            from: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_that_reheap_brings_reads_as_what_it_was_made_of() {
        let bundle = Certificates::of_mozilla();
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bundle.pem).collect();
        assert_eq!(found.unwrap(), webpki_root_certs::TLS_SERVER_ROOT_CERTS);
        assert!(bundle.count > 50);
    }

    #[test]
    fn a_file_without_certificates_or_with_half_a_one_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let whole = Certificates::of_mozilla().pem;
        for (bytes, reason) in [
            (b"text".as_slice(), "there are none in it"),
            (&whole[..1000], "section end"),
        ] {
            fs::write(file.path(), bytes).unwrap();
            let error = Certificates::read(file.path()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        fs::write(file.path(), &whole).unwrap();
        let read = Certificates::read(file.path()).unwrap();
        assert_eq!(read.count, Certificates::of_mozilla().count);
    }
}
