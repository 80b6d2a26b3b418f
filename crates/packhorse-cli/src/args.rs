use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use packhorse::{Compression, CutRule};

/// Packs many small image files into a few large files, and proves it
#[derive(Parser)]
#[command(name = "packhorse", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 same or done, 1 differs, verification failed or files skipped, 2 could not run."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Pack(Pack),
    Verify(Verify),
    Unpack(Unpack),
    Ls(Ls),
    Cat(Cat),
    Stat(Stat),
    #[command(subcommand)]
    Manifest(Manifest),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object
    Json,
}

/// Pack a folder of images
///
/// SRC is a folder; each file in it becomes a sample, whose key is its path. By default the top folder is the class, as in
/// torchvision's ImageFolder. Files left by operating systems and hidden files are left out, and counted.
///
/// OUT is a folder that is new or empty; or a pack, which gets a new version; or what an interrupted run left: the same
/// command then goes on, and ends with the same bytes. The old version is in force until the new one is whole.
#[derive(Args)]
pub(crate) struct Pack {
    /// The folder to pack
    pub(crate) src: PathBuf,
    /// The pack to make
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) tree: TreeArgs,
    /// What to do about a file or folder that cannot be read; skipped ones are listed, and the exit code is 1
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) on_error: OnError,
    /// Threads that hash and write; others read ahead and sync. Changes no byte [default: the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Size of a segment, such as 64MiB; 4KiB to 1TiB [default: 256MiB, or that of the pack]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Compress records where it saves at least 5 %: none, auto (zstd:3) or zstd:LEVEL with LEVEL 1 to 22
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = compression)]
    pub(crate) compress: Compression,
    /// Whether the manifest has a line for each sample [default: samples for a pack of up to 10,000, or as the pack has it]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    /// Say what would be packed, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How a folder becomes samples
#[derive(Args, Clone)]
pub(crate) struct TreeArgs {
    /// Where classes come from: the top folder, below that of the split, or nowhere [default: folder]
    #[arg(long, value_enum, value_name = "FROM")]
    pub(crate) labels: Option<From>,
    /// Where splits come from: the top folder, or nowhere [default: none]
    #[arg(long, value_enum, value_name = "FROM")]
    pub(crate) split: Option<From>,
    /// Keys are paths, or names without the folders of split and class; with names a move between classes changes an
    /// attribute and no key [default: path]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) key: Option<KeyStyle>,
    /// Take only files that match; `*.png` matches in every folder, `train/**` from the top. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out files and folders that match. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// What to do about symbolic links; a link into a folder that it lies in is never followed [default: follow]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) links: Option<Links>,
    /// Take hidden files in
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Start from the defaults, not from the options above that the pack was made with
    #[arg(long)]
    pub(crate) forget: bool,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct Output {
    /// Print no progress and no report; errors only
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    Folder,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyStyle {
    Path,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Links {
    Follow,
    Skip,
    Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    #[default]
    Stop,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Detail {
    Segments,
    Samples,
}

/// Prove that a pack is whole, and equals its source
///
/// Without options, every byte of the pack is read: each record against its SHA-256, the trees, tables and padding, the lock, and that
/// there are no other files; the manifest is made again from the files and compared byte for byte.
#[derive(Args)]
pub(crate) struct Verify {
    /// The pack
    pub(crate) pack: PathBuf,
    /// Compare this folder with the pack's index: every file there, no other, with equal bytes and class. Reads the folder,
    /// not the container files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "sample", "lock"])]
    pub(crate) source: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tree: TreeArgs,
    /// Look at sizes and counts only
    #[arg(long, conflicts_with_all = ["sample", "lock"])]
    pub(crate) quick: bool,
    /// Check a share of the records, such as 1%
    #[arg(long, value_name = "P", value_parser = share, conflicts_with = "lock")]
    pub(crate) sample: Option<f64>,
    /// Seed that draws the share [default: another one each time]
    #[arg(long, value_name = "N", requires = "sample")]
    pub(crate) seed: Option<u64>,
    /// Compare the container files with the lock, as `sha256sum -c` does
    #[arg(long)]
    pub(crate) lock: bool,
    /// Threads [default: the processors allowed; 16 with --source]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Give the files of a pack back, byte for byte
///
/// DIR appears whole or not at all. It must not exist, or be empty.
#[derive(Args)]
pub(crate) struct Unpack {
    /// The pack
    pub(crate) pack: PathBuf,
    /// The folder to make
    pub(crate) dir: PathBuf,
    /// Threads [default: twice the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// List the keys of a pack
#[derive(Args)]
pub(crate) struct Ls {
    /// The pack
    pub(crate) pack: PathBuf,
    /// List only keys that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: std::ffi::OsString,
    /// Print number, bytes, SHA-256 and attributes before each key
    #[arg(long, short)]
    pub(crate) long: bool,
    /// End keys with a zero byte, and print their raw bytes instead of the text form
    #[arg(long, short = '0', conflicts_with_all = ["long", "format"])]
    pub(crate) null: bool,
    /// Form of the list; json prints one object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Write a sample's bytes to standard output
#[derive(Args)]
pub(crate) struct Cat {
    /// The pack
    pub(crate) pack: PathBuf,
    /// The sample's key, as `ls` prints it or as raw bytes
    pub(crate) key: std::ffi::OsString,
    /// The field, where a sample has several [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) field: Option<String>,
}

/// Count what a pack holds
#[derive(Args)]
pub(crate) struct Stat {
    /// The pack
    pub(crate) pack: PathBuf,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Check a manifest, or make a lost one again
#[derive(Subcommand)]
pub(crate) enum Manifest {
    Check(ManifestCheck),
    Rebuild(ManifestRebuild),
}

/// Check a manifest against the files in index/ and attrs/ that it names; no payload is read
#[derive(Args)]
pub(crate) struct ManifestCheck {
    /// The pack, or a .phm file in one
    pub(crate) pack: PathBuf,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Make the manifest, index and lock again from the container files
///
/// Every byte of the container files is checked. Classes are numbered as a first pack does; where an earlier version numbered them
/// otherwise, take its manifest from history/ or from git instead.
#[derive(Args)]
pub(crate) struct ManifestRebuild {
    /// The pack
    pub(crate) pack: PathBuf,
    /// The --shard-size that the pack was made with [default: the first power of two that explains the segments, 256MiB first]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Whether the manifest has a line for each sample [default: samples for a pack of up to 10,000]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number from 1 to 1024".into()),
    }
}

/// Reads a size such as `64MiB`, `64M` (the same), `64MB` (decimal) or plain bytes.
fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn shard_size(text: &str) -> Result<CutRule, String> {
    let size = size(text).ok_or("a number of bytes, or one with a unit, such as 256MiB or 250MB")?;
    CutRule::of_size(size).ok_or_else(|| "between 4KiB and 1TiB".into())
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "auto" => Ok(Compression::Zstd(3)),
        _ => match text.strip_prefix("zstd:").and_then(|level| level.parse().ok()) {
            Some(level @ 1..=22) => Ok(Compression::Zstd(level)),
            _ => Err("none, auto, or zstd:LEVEL with LEVEL from 1 to 22".into()),
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a share above 0 and up to 100 %, such as 1% or 0.01".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("4096", 4096), ("64MiB", 64 << 20), ("64m", 64 << 20), ("1 GB", 1_000_000_000)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5G", "-1", "1x", "99999999999999999999", "20000000TiB"] {
            assert_eq!(size(text), None, "{text}");
        }
        assert!(share("0").is_err() && share("101%").is_err() && share("nan").is_err());
        assert_eq!(share("1%"), Ok(0.01));
    }
}
