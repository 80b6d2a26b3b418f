use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use packhorse::{ColumnType, Compression, CutRule, Labels, Order, Splits};

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
    Repair(Repair),
    Convert(Convert),
    Index(Index),
    Diff(Diff),
    Unpack(Unpack),
    Ls(Ls),
    Cat(Cat),
    Stat(Stat),
    #[command(subcommand)]
    Manifest(Manifest),
    Completions(Completions),
    Man(Man),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object
    Json,
}

/// Pack a folder of images, a list or an archive
///
/// SRC is a folder, each file of which becomes a sample whose key is its path; or a list of files (CSV, TSV, JSONL, `path label`
/// lines, the output of sha256sum); or an archive (tar, tar.gz, tar.zst, zip; 'shard-{000..041}.tar', in quotes, for several). By default
/// the class is the top folder, as in torchvision's ImageFolder, and of a list its column or label. Files left by
/// operating systems and hidden files are left out, and counted.
///
/// OUT is a folder that is new or empty; or a pack, which gets a new version; or what an interrupted run left: the same
/// command then goes on, and ends with the same bytes. The old version is in force until the new one is whole.
#[derive(Args)]
pub(crate) struct Pack {
    /// The folder, list or archive to pack
    pub(crate) src: PathBuf,
    /// The pack to make
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Number the classes as this file says: a name a line, from 0 on, or a JSON object or array of names. Needed once: later
    /// versions keep the numbers
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
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
    #[command(flatten)]
    pub(crate) target: Target,
    /// Say what would be packed, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How a source becomes samples
#[derive(Args, Clone, Default, PartialEq)]
#[command(next_help_heading = "Source")]
pub(crate) struct SourceArgs {
    /// What the source is [default: told by its content and name]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: Option<From>,
    /// Where classes come from: the top folder, below that of the split (`folder`), a column of a list (`column:NAME`) or
    /// nowhere (`none`) [default: folder; for a list that is no list of
    /// checksums its column class, label, category or class_name, or its label]
    #[arg(long, value_name = "FROM")]
    pub(crate) labels: Option<Labels>,
    /// Where splits come from: the top folder (`folder`), a column (`column:NAME`), nowhere (`none`), or a hash of the key:
    /// `hash:0.9` for train and val, or `hash:train=0.8,val=0.1,test=0.1`. With a hash, a sample never changes sides
    /// [default: the column split of a list, else none]
    #[arg(long, value_name = "FROM")]
    pub(crate) split: Option<Splits>,
    /// Draw the split by the hash of this column, such as a patient, in place of the key's
    #[arg(long, value_name = "COLUMN")]
    pub(crate) split_by: Option<String>,
    /// Keys are paths, or names without the folders of split and class; with names a move between classes changes an
    /// attribute and no key [default: path]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) key: Option<KeyStyle>,
    /// Files that share a path up to the first dot of their name are one sample, with a field for each extension
    #[arg(long)]
    pub(crate) group: bool,
    /// Fields that each grouped sample must have, such as jpg,json; a sample without one is an error
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
    /// Take only files that match; `*.png` matches in every folder, `train/**` from the top. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out files and folders that match. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// What to do about symbolic links; a link into a folder that it lies in is never followed, and one in an archive is
    /// skipped or an error [default: follow]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) links: Option<Links>,
    /// Take hidden files in
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Take so many folders off the paths in an archive [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) strip_components: Option<usize>,
    /// The folder that the paths of a list are relative to [default: the list's own]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The column of a list that holds paths [default: path, file_name, filename, filepath,
    /// file_path, file, image, image_path or img]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) path_column: Option<String>,
    /// Put this after each path of a list, such as .jpg where a column has names without it
    #[arg(long, value_name = "TEXT")]
    pub(crate) path_suffix: Option<String>,
    /// Types of columns, such as age=int,score=float,seen=bool,id=string [default: string; in JSONL what the values are]
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = column_type)]
    pub(crate) types: Vec<(String, ColumnType)>,
    /// Start from the defaults, not from the options above that the pack was made with
    #[arg(long)]
    pub(crate) forget: bool,
}

/// The container that a pack is written in
#[derive(Args, Clone)]
#[command(next_help_heading = "Container")]
pub(crate) struct Target {
    /// The container: packhorse's own shards, or files that other tools read without packhorse
    /// [default: shard, or that of the pack]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) container: Option<ContainerName>,
    /// The order of the samples in tars, TFRecords and HDF5 files: that of their keys (`key`), or by a hash of key and seed
    /// (`shuffled:SEED`) [default: as the pack has it, or shuffled:0 where files are read from beginning to end, key for HDF5]
    #[arg(long, value_name = "ORDER", value_parser = order)]
    pub(crate) order: Option<Order>,
    /// Name the members of a tar so that WebDataset reads each as one sample: `a/b.c.jpg` becomes `a/b_c_jpg.jpg`. Without it,
    /// names that it would split, merge or pass over are errors
    #[arg(long)]
    pub(crate) safe_names: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContainerName {
    /// packhorse's own: random access, one file for each segment
    Shard,
    /// HDF5 files with all payloads in one dataset
    #[cfg(feature = "hdf5")]
    Hdf5,
    /// LMDB: one file, in key order
    Lmdb,
    /// Tar files by the convention of WebDataset
    Tar,
    /// TFRecord files of tf.train.Example
    Tfrecord,
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
    /// A folder
    Folder,
    /// Comma-separated values with a header
    Csv,
    /// Tab-separated values with a header
    Tsv,
    /// A JSON object a line
    Jsonl,
    /// Lines of path and label
    Pairs,
    /// The output of sha256sum; its hashes are checked
    Sha256sum,
    /// A tar archive, plain, or compressed with gzip or zstd
    Tar,
    /// A zip archive
    Zip,
    /// TFRecord, LMDB or HDF5 files
    Container,
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
    /// Compare this folder, list, archive or other pack with the pack's index: every sample there, no other, with equal bytes and
    /// attributes. Reads the source, not the container files
    #[arg(long, value_name = "SRC", conflicts_with_all = ["quick", "sample", "lock"])]
    pub(crate) source: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: SourceArgs,
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

/// Write what is damaged or missing in a pack anew, and nothing else
///
/// The whole pack is read. Index files come from the container files; attributes from what the source says of its samples, without their
/// bytes; container files from the samples of their segment; the manifest and the lock from the other files. Each must have the digest that
/// the pack knows it by: afterwards the pack has the bytes that it had when it was made. A source that has changed mends the segments
/// that are as they were.
#[derive(Args)]
pub(crate) struct Repair {
    /// The pack
    pub(crate) pack: PathBuf,
    /// The folder, list or archive that the pack was made from, or a good pack of it
    #[arg(long, value_name = "SRC")]
    pub(crate) source: PathBuf,
    #[command(flatten)]
    pub(crate) options: SourceArgs,
    /// Threads that hash and write; others read ahead [default: the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// How records of damaged container files are compressed: none, auto (zstd:3) or zstd:LEVEL [default: as they were]
    #[arg(long, value_name = "HOW", value_parser = compression)]
    pub(crate) compress: Option<Compression>,
    /// The --shard-size that the pack was made with, should manifest and derived/last both be lost [default: told by the other files]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Whether a lost manifest had a line for each sample [default: as derived/last says, or samples for a pack of up to 10,000]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    /// The --classes that the pack was made with, should its manifest be lost
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Make a pack of another pack, with other sizes or compression
///
/// Keys, classes with their numbers, splits and attributes stay as they are; each record is compared with its SHA-256 on the way. With the same
/// --shard-size and no compression the result is the pack that the first source gives.
#[derive(Args)]
pub(crate) struct Convert {
    /// The pack to read
    pub(crate) pack: PathBuf,
    /// The pack to make
    pub(crate) out: PathBuf,
    /// Threads that hash and write; others read ahead and sync [default: the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Size of a segment, such as 64MiB; 4KiB to 1TiB [default: that of the pack]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Compress records where it saves at least 5 %: none, auto (zstd:3) or zstd:LEVEL with LEVEL 1 to 22
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = compression)]
    pub(crate) compress: Compression,
    /// Whether the manifest has a line for each sample [default: as the pack has it]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Make a pack of tars, TFRecord, LMDB or HDF5 files where they are, without copying them
///
/// The files, which any program may have written, are read sample by sample, and once more for the lock. The pack then has a manifest, an index and a table of places, and finds each sample in them:
/// random access, verify, stat, convert and unpack work as on any pack. The files must stay where they are from the pack, and as they are: `verify`
/// and reads notice where they are not.
#[derive(Args)]
pub(crate) struct Index {
    /// The file, or a folder of containers; several as 'shard-{000..041}.tar', in quotes
    pub(crate) src: PathBuf,
    /// The pack to make
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Number the classes as this file says: a name a line, from 0 on, or a JSON object or array of names
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    /// What to do about a sample that cannot be read; skipped ones are listed, and the exit code is 1
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) on_error: OnError,
    /// Threads that hash; others read ahead [default: the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Size of a segment of the index, such as 64MiB; 4KiB to 1TiB [default: 256MiB, or that of the pack]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Whether the manifest has a line for each sample [default: samples for a pack of up to 10,000, or as the pack has it]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Say what differs between two packs, or two versions of one
///
/// Samples that only one has, those with other bytes or other attributes, and classes with other numbers; containers, sizes of segments and compression
/// are no differences. Reads manifests, index/ and attrs/ alone: container files need not be there. Exit code 0 where there is no difference, 1 where
/// there is one.
#[derive(Args)]
pub(crate) struct Diff {
    /// The pack before; or a manifest in it, such as history/VERSION.phm for an earlier version
    pub(crate) a: PathBuf,
    /// The pack after; or a manifest in it
    pub(crate) b: PathBuf,
    /// Differences of each kind to list; all are counted. JSON has them all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
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

/// Say what a pack holds, and what is wrong with it
///
/// Classes, splits and sizes, exact duplicates, and equal bytes under two classes or in two splits come from the index. --check
/// reads the images as well. Exit code 1 where an image cannot be decoded.
#[derive(Args)]
pub(crate) struct Stat {
    /// The pack
    pub(crate) pack: PathBuf,
    /// What to read of each image [default: index; with --html header]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) check: Option<Check>,
    /// Write a page with histograms and a few images of each class; it needs no network and no other file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Images of each class on the page
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) sheet: usize,
    /// Groups of duplicates and broken images to list; all are counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) list: usize,
    /// Threads that read images [default: the processors allowed]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Check {
    /// Nothing: the index says the rest
    Index,
    /// First and last bytes: format, size, colours, orientation, whether it seems whole
    Header,
    /// All of it: each image is decoded
    Decode,
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
/// Every byte of the container files is checked. The result is the manifest that was published, byte for byte, as long as derived/last
/// is there to tell; without it, classes are numbered by --classes, or as a first pack does.
#[derive(Args)]
pub(crate) struct ManifestRebuild {
    /// The pack
    pub(crate) pack: PathBuf,
    /// The --shard-size that the pack was made with [default: as derived/last says, or the first power of two that explains the segments,
    /// 256MiB first]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<CutRule>,
    /// Whether the manifest has a line for each sample [default: as derived/last says, or samples for a pack of up to 10,000]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) detail: Option<Detail>,
    /// The --classes that the pack was made with
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Print a script that completes packhorse's commands and options in a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages
#[derive(Args)]
pub(crate) struct Man {
    /// The folder to write them to, such as ~/.local/share/man/man1; made where it is missing
    pub(crate) dir: PathBuf,
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

fn order(text: &str) -> Result<Order, String> {
    match (text, text.strip_prefix("shuffled:").map(str::parse)) {
        ("key", _) => Ok(Order::Key),
        (_, Some(Ok(seed))) => Ok(Order::Shuffled(seed)),
        _ => Err("key, or shuffled:SEED with a number".into()),
    }
}

fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (column, kind) = text.rsplit_once('=').ok_or("COLUMN=TYPE")?;
    Ok((column.to_owned(), kind.parse()?))
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
