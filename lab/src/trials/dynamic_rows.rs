//! The dynamic programs, all of Debian, and what each is asked to do. The scripts are in `lab/trials`.

/// A program on trial.
pub(super) struct DynamicRow {
    /// Its name, and that of its script without `.sh`.
    pub(super) name: &'static str,
    /// What the script needs of Debian; first the package that holds the program.
    pub(super) packages: &'static [&'static str],
    /// The program that must be seen to call the allocator, as it is found in PATH, or a pattern of the shell.
    pub(super) program: &'static str,
    /// What the script does with it.
    pub(super) does: &'static str,
}

const fn row(
    name: &'static str,
    packages: &'static [&'static str],
    program: &'static str,
    does: &'static str,
) -> DynamicRow {
    DynamicRow {
        name,
        packages,
        program,
        does,
    }
}

#[rustfmt::skip] // a table
pub(super) const ROWS: &[DynamicRow] = &[
    // Interpreters with native extensions.
    row("perl", &["perl", "libjson-xs-perl", "libdbd-sqlite3-perl", "libxml-libxml-perl"], "perl",
        "JSON::XS, DBD::SQLite, XML::LibXML, four threads"),
    row("numpy", &["python3-numpy"], "python3", "arrays, sorting, linear algebra in threads and forked workers"),
    row("lxml-pillow", &["python3-lxml", "python3-pil"], "python3", "XPath and XSLT; pictures in five formats, eight threads"),
    row("lua", &["lua5.4", "lua-cjson", "lua-lpeg"], "lua5.4", "cjson, lpeg, 500 coroutines"),
    row("tcl", &["tcl8.6", "libsqlite3-tcl", "tcl-thread"], "tclsh8.6", "SQLite with functions in Tcl, four threads"),
    row("guile", &["guile-3.0"], "guile-3.0", "big numbers, hash tables, its collector, eight parallel tasks"),
    row("r", &["r-base-core"], "/usr/lib/R/bin/exec/R", "a linear model, regular expressions, a plot, forked workers"),
    row("erlang", &["erlang-base", "erlang-crypto"], "/usr/lib/erlang/erts-*/bin/beam.smp", "40 processes, ETS tables, its crypto library"),
    row("gawk", &["gawk"], "gawk", "five extension libraries, a forked child"),
    row("vim", &["vim-nox"], "vim.nox", "5,000 lines edited by script and by Python inside"),
    row("emacs", &["emacs-nox"], "emacs", "sorting, JSON, libxml, a child process, threads, garbage collection"),
    // A Java virtual machine with native code.
    row("jni", &["openjdk-17-jdk-headless", "gcc", "libc6-dev"], "java",
        "a JNI library that allocates and frees on six threads and calls back"),
    // Tools around files.
    row("git", &["git"], "git", "commits, merge, repack, gc, fsck, clone, blame, archive"),
    row("imagemagick", &["imagemagick"], "convert", "blur, swirl, resize, seven pictures in four formats"),
    row("ffmpeg", &["ffmpeg"], "ffmpeg", "encodes and decodes MPEG-4, H.264, AAC, FLAC, MP3"),
    row("ghostscript", &["ghostscript", "python3"], "gs", "PostScript to PDF to PNG and text"),
    row("xslt", &["xsltproc", "libxml2-utils"], "xsltproc", "a style sheet with keys, XPath, canonical XML, a broken file"),
    row("openssl", &["openssl"], "openssl", "certificates, digests, CMS, PKCS #12, the legacy provider"),
    row("gpg", &["gnupg"], "gpg", "keys by its agent; encrypts, signs, verifies"),
    row("qemu-img", &["qemu-utils", "python3"], "qemu-img", "converts between four formats with eight threads, snapshots, rebase"),
    row("gcc", &["g++", "lld", "binutils"], "/usr/lib/gcc/*/*/cc1plus", "C++ with templates, threads and exceptions; LTO, lld; strip, objdump"),
    row("sqlite", &["sqlite3", "libsqlite3-dev", "gcc"], "sqlite3", "an extension whose text SQLite frees, FTS5, R-tree"),
    row("gstreamer", &["gstreamer1.0-tools", "gstreamer1.0-plugins-base", "gstreamer1.0-plugins-good"], "gst-launch-1.0",
        "pipelines of twenty plug-ins, with threads"),
    // Programs that serve.
    row("apache", &["apache2-bin", "apache2-utils", "curl", "media-types"], "apache2",
        "20 modules: Lua, CGI, proxy, includes, deflate; 120 parallel requests; a graceful restart"),
    row("lighttpd", &["lighttpd", "curl"], "lighttpd", "plug-ins, CGI, 120 parallel requests"),
    row("haproxy", &["haproxy", "curl", "python3"], "haproxy", "four threads, Lua, compression, 300 parallel requests"),
    row("memcached", &["memcached", "python3"], "memcached", "eight clients, four threads"),
    row("mariadb", &["mariadb-server-core", "mariadb-client-core"], "mariadbd",
        "two engines, JSON, procedures, six clients, a dump"),
    row("postgres-extensions", &["postgresql-15", "postgresql-plpython3-15"], "/usr/lib/postgresql/*/bin/postgres",
        "nine extensions, among them pgcrypto and PL/Python; parallel queries, five clients"),
    row("bind", &["bind9", "bind9-utils", "bind9-dnsutils"], "named", "3,000 names, 1,500 questions, a zone transfer, signing"),
    row("rsync", &["rsync"], "rsync", "a daemon, deltas, compression"),
    row("rsyslog", &["rsyslog", "python3"], "rsyslogd", "input and parser plug-ins, four workers, 6,000 messages"),
    row("uwsgi", &["uwsgi-core", "uwsgi-plugin-python3", "curl"], "uwsgi",
        "the Python plug-in, two processes of three threads, workers that are replaced"),
    row("curl", &["curl", "python3", "openssl"], "curl", "TLS, 20 parallel transfers"),
    // Desktop programs, on a virtual screen.
    row("mousepad", &["mousepad", "xvfb", "xdotool", "x11-utils", "imagemagick"], "mousepad", "GTK: opens a file, takes keys, saves, quits"),
    row("xterm", &["xterm", "xvfb", "x11-utils"], "xterm", "9,000 lines of output"),
];
