pub(crate) mod manifest;
pub(crate) mod pack;
pub(crate) mod read;
pub(crate) mod stat;
pub(crate) mod unpack;
pub(crate) mod verify;

use std::path::Path;

use anyhow::Result;
use packhorse::{KeyStyle, Labels, Links, OnError, Rules, SourceOptions, Splits, Tree, TreeOptions};

use crate::args::{self, TreeArgs};

/// Puts the options of the command line over those that the pack was made with.
fn source_options(args: &TreeArgs, pack: &Path) -> Result<SourceOptions> {
    let before = if args.forget { None } else { SourceOptions::load(pack)? };
    let before = before.unwrap_or(SourceOptions { labels: true, ..SourceOptions::default() });
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
