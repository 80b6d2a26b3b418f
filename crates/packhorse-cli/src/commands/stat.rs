use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use packhorse::encode_text;
use serde_json::json;

use crate::args::{Format, Stat};
use crate::print::{self, bytes, count, counted};

type Counts = BTreeMap<Option<Box<[u8]>>, (u64, u64)>;

pub(crate) fn run(args: &Stat) -> Result<ExitCode> {
    let stat = packhorse::stat(&args.pack)?;
    if args.format == Format::Json {
        print::json(&json!({
            "version": stat.version.to_string(),
            "container": stat.container,
            "samples": stat.samples,
            "bytes": stat.bytes,
            "bytes_stored": stat.stored,
            "segments": stat.segments,
            "smallest": stat.sizes.0,
            "largest": stat.sizes.1,
            "content_root": stat.content_root.to_string(),
            "attribute_root": stat.attribute_root.to_string(),
            "classes": counts_json(&stat.classes),
            "splits": counts_json(&stat.splits),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!(
        "samples         {}\npayload         {} (stored in {})\nsmallest        {} bytes\nlargest         {} bytes\ncontainer       {}, {}\n",
        count(stat.samples),
        bytes(stat.bytes),
        bytes(stat.stored),
        count(stat.sizes.0),
        count(stat.sizes.1),
        stat.container,
        counted(stat.segments as u64, "segment"),
    );
    out += &format!(
        "version         {}\ncontent root    {}\nattribute root  {}\n",
        stat.version, stat.content_root, stat.attribute_root
    );
    for (what, counts) in [("class", &stat.classes), ("split", &stat.splits)] {
        if !counts.is_empty() {
            out += &format!("\n{:>9}  {:>12}  {what}\n", "samples", "bytes");
        }
        for (name, (samples, total)) in counts {
            out +=
                &format!("{:>9}  {:>12}  {}\n", count(*samples), bytes(*total), name_text(name.as_deref()));
        }
    }
    print::data(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn name_text(name: Option<&[u8]>) -> String {
    name.map_or_else(|| "(none)".to_owned(), |name| encode_text(name, "").into_owned())
}

fn counts_json(counts: &Counts) -> serde_json::Value {
    let row = |(name, (samples, total)): (&Option<Box<[u8]>>, &(u64, u64))| {
        let name = name.as_deref().map(|name| encode_text(name, "").into_owned());
        json!({ "name": name, "samples": samples, "bytes": total })
    };
    counts.iter().map(row).collect::<Vec<_>>().into()
}
