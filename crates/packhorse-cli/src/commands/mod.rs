pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod help;
pub(crate) mod index;
pub(crate) mod manifest;
pub(crate) mod pack;
pub(crate) mod read;
pub(crate) mod repair;
pub(crate) mod stat;
pub(crate) mod unpack;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use packhorse::errors::SourceError;
use packhorse::{
    Error, Format, KeyStyle, Labels, Links, Lmdb, Names, Order, Pack, Source, SourceFormat, SourceOptions,
    Splits, Stream, Tar, TfRecord,
};

use crate::args::{self, SourceArgs};
use crate::print;

/// Puts the options of the command line over those that the pack was made with.
fn source_options(args: &SourceArgs, src: &Path, pack: &Path, quiet: bool) -> Result<SourceOptions> {
    let remembered = if args.forget { None } else { packhorse::source_options(pack)? };
    options_over(remembered, args, src, pack, quiet)
}

fn options_over(
    remembered: Option<SourceOptions>,
    args: &SourceArgs,
    src: &Path,
    pack: &Path,
    quiet: bool,
) -> Result<SourceOptions> {
    let again =
        |i: usize| args.types[..i].iter().any(|(name, _)| name.eq_ignore_ascii_case(&args.types[i].0));
    if let Some(i) = (0..args.types.len()).find(|&i| again(i)) {
        let what = format!("--types names the column {} twice", args.types[i].0);
        return Err(Error::Refused { what, hint: "a column has one type".to_owned() }.into());
    }
    let before = match remembered {
        // The options that the pack was made with are for its first source.
        _ if packhorse::is_pack(src) => SourceOptions::default(),
        Some(before) => before,
        None if args.forget => SourceOptions::default(),
        None => of_attributes(src, pack),
    };
    let patterns_hold = args.include.is_empty() && !before.include.is_empty()
        || args.exclude.is_empty() && !before.exclude.is_empty();
    if patterns_hold && !quiet {
        let patterns = [("--include", &before.include), ("--exclude", &before.exclude)];
        let patterns =
            patterns.iter().flat_map(|(flag, all)| all.iter().map(move |one| format!(" {flag} {one}")));
        print::note(&format!("as the pack was made:{} (--forget starts anew)", patterns.collect::<String>()));
    }
    let or = |now: &[String], before: Vec<String>| if now.is_empty() { before } else { now.to_vec() };
    Ok(SourceOptions {
        labels: args.labels.clone().or(before.labels),
        splits: args.split.clone().or(before.splits),
        split_by: args.split_by.clone().or(before.split_by),
        key: args.key.map_or(before.key, |key| match key {
            args::KeyStyle::Path => KeyStyle::Path,
            args::KeyStyle::Name => KeyStyle::Name,
        }),
        group: args.group || before.group,
        require: or(&args.require, before.require),
        links: args.links.map_or(before.links, |links| match links {
            args::Links::Follow => Links::Follow,
            args::Links::Skip => Links::Skip,
            args::Links::Error => Links::Error,
        }),
        hidden: args.hidden || before.hidden,
        include: or(&args.include, before.include),
        exclude: or(&args.exclude, before.exclude),
        strip_components: args.strip_components.unwrap_or(before.strip_components),
        path_column: args.path_column.clone().or(before.path_column),
        path_suffix: args.path_suffix.clone().unwrap_or(before.path_suffix),
        types: before.types.into_iter().chain(args.types.iter().cloned()).collect(),
        root: args.root.clone(),
        format: args.from.map(|from| match from {
            args::From::Folder => SourceFormat::Folder,
            args::From::Csv => SourceFormat::Csv,
            args::From::Tsv => SourceFormat::Tsv,
            args::From::Jsonl => SourceFormat::Jsonl,
            args::From::Pairs => SourceFormat::Pairs,
            args::From::Sha256sum => SourceFormat::Checksums,
            args::From::Tar => SourceFormat::Tar,
            args::From::Zip => SourceFormat::Zip,
            args::From::Container => SourceFormat::Container,
        }),
    })
}

/// A pack that was copied without its options still tells which attributes it has.
fn of_attributes(src: &Path, pack: &Path) -> SourceOptions {
    let Ok(pack) = Pack::open(pack) else { return SourceOptions::default() };
    let has = |name: &str| pack.manifest().attributes.iter().any(|known| known == name);
    SourceOptions {
        labels: (!has("class")).then_some(Labels::None),
        splits: (has("split") && src.is_dir()).then_some(Splits::Folder),
        ..SourceOptions::default()
    }
}

/// Returns the container that was asked for; `None` for that of the pack.
fn format(target: &args::Target, out: &Path) -> Result<Option<Format>> {
    let refuse =
        |what: &str, hint: &str| Err(Error::Refused { what: what.to_owned(), hint: hint.to_owned() }.into());
    let shards = matches!(target.container, None | Some(args::ContainerName::Shard));
    if shards && (target.order.is_some() || target.safe_names) {
        return refuse("--order and --safe-names are not for shards", "add --container tar");
    }
    let Some(name) = target.container else { return Ok(None) };
    // A new version is written as the one before.
    let before = Pack::open(out).ok().and_then(|pack| {
        let files = pack.stream().ok()??;
        Some((files.order().ok()?, files.options().ok()?))
    });
    let safe = target.safe_names || before.is_some_and(|(_, options)| options == 1);
    if target.safe_names && name != args::ContainerName::Tar {
        return refuse("--safe-names is for tars", "the other containers take any key");
    }
    let (stream, usual): (Arc<dyn Stream>, _) = match name {
        args::ContainerName::Lmdb if target.order.is_some_and(|order| order != Order::Key) => {
            return refuse("LMDB has its records in the order of their keys", "leave --order out");
        }
        args::ContainerName::Shard => return Ok(Some(Format::Shard)),
        args::ContainerName::Lmdb => return Ok(Some(Format::Database(&Lmdb))),
        #[cfg(feature = "hdf5")]
        args::ContainerName::Hdf5 => (Arc::new(packhorse::Hdf5), Order::Key),
        args::ContainerName::Tar => {
            (Arc::new(Tar { names: if safe { Names::Safe } else { Names::Keys } }), Order::Shuffled(0))
        }
        args::ContainerName::Tfrecord => (Arc::new(TfRecord), Order::Shuffled(0)),
    };
    let order = target.order.or(before.map(|(order, _)| order)).unwrap_or(usual);
    Ok(Some(Format::Stream { stream, order }))
}

fn open(path: &Path, options: &SourceOptions, pack: &Path) -> Result<Box<dyn Source>> {
    packhorse::open_source(path, options).map_err(|error| match error {
        Error::Source(SourceError::Option(what))
            if packhorse::source_options(pack).is_ok_and(|known| known.is_some()) =>
        {
            let hint =
                "options that the pack was made with hold; --forget starts from the defaults".to_owned();
            Error::Refused { what, hint }.into()
        }
        error => error.into(),
    })
}
