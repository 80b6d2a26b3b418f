use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::{Result, bail};
use packhorse::{Attributes, Key, Pack, Sample, Value, encode_text};
use serde_json::json;

use crate::args::{Cat, Format, Ls};

pub(crate) fn ls(args: &Ls) -> Result<ExitCode> {
    let pack = Pack::open(&args.pack)?;
    let mut out = BufWriter::new(io::stdout().lock());
    for i in 0..pack.len() {
        let sample = pack.get(i)?;
        let key = sample.key()?;
        if !key.as_bytes().starts_with(args.prefix.as_bytes()) {
            continue;
        }
        if args.null {
            out.write_all(key.as_bytes())?;
            out.write_all(&[0])?;
        } else if args.format == Format::Json {
            writeln!(out, "{}", json_line(&pack, i, &sample)?)?;
        } else if args.long {
            let fields = sample.fields()?;
            let bytes: u64 = fields.iter().map(|field| field.size).sum();
            let (names, values): (Vec<_>, Vec<_>) = pack.attributes(i)?.into_iter().unzip();
            let attributes = Attributes { names: &names, values: &values };
            writeln!(out, "{i} {bytes} {} {attributes} {key}", fields[0].sha256)?;
        } else {
            writeln!(out, "{key}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn json_line(pack: &Pack, i: u64, sample: &Sample<'_>) -> Result<serde_json::Value> {
    let fields: Vec<_> = sample
        .fields()?
        .iter()
        .map(|field| json!({ "name": field.name, "bytes": field.size, "sha256": field.sha256.to_string() }))
        .collect();
    let value = |value: Value| match value {
        Value::Null => serde_json::Value::Null,
        Value::String(bytes) => encode_text(&bytes, "").into_owned().into(),
        Value::Int(number) => number.into(),
        Value::Float(number) => number.into(),
        Value::Bool(truth) => truth.into(),
    };
    let attributes: serde_json::Map<_, _> =
        pack.attributes(i)?.into_iter().map(|(name, found)| (name, value(found))).collect();
    Ok(
        json!({ "index": i, "key": sample.key()?.to_string(), "fields": fields, "attributes": attributes, "label": pack.label(i)? }),
    )
}

pub(crate) fn cat(args: &Cat) -> Result<ExitCode> {
    let pack = Pack::open(&args.pack)?;
    let raw = pack.get_key(args.key.as_bytes())?;
    let text = || args.key.to_str().and_then(|text| Key::from_text(text).ok());
    let sample = match (raw, text()) {
        (None, Some(key)) => pack.get_key(key.as_ref().as_bytes())?,
        (found, _) => found,
    };
    let Some(sample) = sample else {
        bail!(
            "{} has no sample {}; `packhorse ls` lists them",
            args.pack.display(),
            encode_text(args.key.as_bytes(), "")
        );
    };
    let n = match &args.field {
        None => 0,
        Some(name) => match sample.fields()?.iter().position(|field| field.name == name) {
            Some(n) => n,
            None => bail!("sample {} has no field {name}", sample.key()?),
        },
    };
    let mut bytes = Vec::new();
    sample.read(n as u64, &mut bytes)?;
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
