pub(crate) mod manifest;
pub(crate) mod pack;
pub(crate) mod read;
pub(crate) mod stat;
pub(crate) mod unpack;
pub(crate) mod verify;

use std::path::Path;

use anyhow::Result;
use packhorse::{KeyStyle, Labels, Links, OnError, Pack, Rules, SourceOptions, Splits, Tree, TreeOptions};

use crate::args::{self, TreeArgs};
use crate::print;

/// Puts the options of the command line over those that the pack was made with.
fn source_options(args: &TreeArgs, pack: &Path) -> Result<SourceOptions> {
    let remembered = if args.forget { None } else { SourceOptions::load(pack)? };
    // A pack that was copied without its options still tells which attributes it has.
    let attributes =
        Pack::open(pack).ok().filter(|_| !args.forget).map(|pack| pack.manifest().attributes.clone());
    let has = |name: &str| attributes.as_ref().map(|names| names.iter().any(|known| known == name));
    let before = remembered.unwrap_or_else(|| SourceOptions {
        labels: has("class").unwrap_or(true),
        split: has("split").unwrap_or(false),
        ..SourceOptions::default()
    });
    let patterns_hold = args.include.is_empty() && !before.include.is_empty()
        || args.exclude.is_empty() && !before.exclude.is_empty();
    if patterns_hold {
        let patterns = [("--include", &before.include), ("--exclude", &before.exclude)];
        let patterns =
            patterns.iter().flat_map(|(flag, all)| all.iter().map(move |one| format!(" {flag} {one}")));
        print::note(&format!("as the pack was made:{} (--forget starts anew)", patterns.collect::<String>()));
    }
    let patterns = |now: &Vec<String>, before: Vec<String>| if now.is_empty() { before } else { now.clone() };
    Ok(SourceOptions {
        labels: args.labels.map_or(before.labels, |labels| labels == args::From::Folder),
        split: args.split.map_or(before.split, |split| split == args::From::Folder),
        key_name: args.key.map_or(before.key_name, |key| key == args::KeyStyle::Name),
        links: args.links.map_or(before.links, |links| links as u8),
        hidden: args.hidden || before.hidden,
        include: patterns(&args.include, before.include),
        exclude: patterns(&args.exclude, before.exclude),
    })
}

/// Opens a folder as the options say.
fn tree(path: &Path, options: &SourceOptions, on_error: OnError) -> Result<Tree> {
    let options = TreeOptions {
        labels: if options.labels { Labels::Folder } else { Labels::None },
        splits: if options.split { Splits::Folder } else { Splits::None },
        key: if options.key_name { KeyStyle::Name } else { KeyStyle::Path },
        links: match options.links {
            0 => Links::Follow,
            1 => Links::Skip,
            _ => Links::Error,
        },
        rules: Rules::new(&options.include, &options.exclude, options.hidden).map_err(anyhow::Error::msg)?,
        on_error,
    };
    Ok(Tree::open(path, options).map_err(packhorse::Error::from)?)
}
