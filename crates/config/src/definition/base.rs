//! What this program brings for any cluster, in pieces that a distribution includes.

/// A piece: declarations, and files that are made of them.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: &'static str,
    /// The pieces whose values it uses.
    pub(super) needs: &'static [&'static str],
    pub(super) declarations: &'static str,
    pub(super) files: &'static [File],
}

/// A file of a piece.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) executable: bool,
}

macro_rules! file {
    ($path:literal, $executable:literal) => {
        File {
            path: $path,
            text: include_str!(concat!("../../base/files/", $path)),
            executable: $executable,
        }
    };
}

macro_rules! piece {
    ($name:literal needs $needs:expr, files $($path:literal)*, programs $($program:literal)*) => {
        Piece {
            name: $name,
            needs: &$needs,
            declarations: include_str!(concat!("../../base/", $name, ".yaml")),
            files: &[$(file!($path, false),)* $(file!($program, true),)*],
        }
    };
}

/// All of them, in the order in which they are read.
pub(super) const PIECES: [Piece; 7] = [
    piece!("cluster" needs [], files "etc/master_list" "etc/master_count", programs),
    piece!(
        "quorum" needs ["cluster"],
        files "etc_master/exhibitor" "etc_master/exhibitor-secrets",
        programs
    ),
    piece!(
        "dns" needs ["cluster"],
        files "etc/dns_config" "etc/dns_search_config" "etc/dns_zones.json"
            "etc_master/dns_config_master",
        programs
    ),
    piece!("proxy" needs [], files "etc/proxy.env", programs),
    piece!(
        "detect" needs [],
        files,
        programs "bin/detect_ip" "bin/detect_ip_public" "bin/detect_ip6" "bin/detect_fault_domain"
    ),
    piece!("ssh" needs ["cluster"], files, programs),
    piece!("checks" needs [], files "etc/check_config.json" "etc/check_time.env", programs),
];
