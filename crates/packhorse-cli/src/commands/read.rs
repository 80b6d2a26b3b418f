use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::{Result, bail};
use packhorse::{Attributes, FieldRow, Key, KeyRef, Pack, Value, encode_text, path_text};
use serde_json::json;

use crate::args::{Cat, Format, Ls};
use crate::print::no_output;

pub(crate) fn ls(args: &Ls) -> Result<ExitCode> {
    let pack = Pack::open(&args.pack)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut i = 0;
    for s in 0..pack.manifest().segments.len() {
        let tables = pack.tables(s)?;
        let index = tables.index()?;
        for row in 0..index.len() {
            let row = index.row(row).map_err(tables.malformed())?;
            if row.key.as_bytes().starts_with(args.prefix.as_bytes()) {
                let fields: Result<Vec<_>, _> = index.fields(row).collect();
                let fields = fields.map_err(tables.malformed())?;
                line(args, &pack, i, row.key, &fields, &mut out)?;
            }
            i += 1;
        }
    }
    out.flush().map_err(no_output)?;
    Ok(ExitCode::SUCCESS)
}

fn line(
    args: &Ls,
    pack: &Pack,
    i: u64,
    key: KeyRef<'_>,
    fields: &[FieldRow<'_>],
    out: &mut impl Write,
) -> Result<()> {
    if args.null {
        out.write_all(key.as_bytes())?;
        out.write_all(&[0])?;
    } else if args.format == Format::Json {
        writeln!(out, "{}", json_line(pack, i, key, fields)?)?;
    } else if args.long {
        let bytes: u64 = fields.iter().map(|field| field.size).sum();
        let (names, values): (Vec<_>, Vec<_>) = pack.attributes(i)?.into_iter().unzip();
        let attributes = Attributes { names: &names, values: &values };
        writeln!(out, "{i} {bytes} {} {attributes} {key}", fields[0].sha256)?;
    } else {
        writeln!(out, "{key}")?;
    }
    Ok(())
}

fn json_line(pack: &Pack, i: u64, key: KeyRef<'_>, fields: &[FieldRow<'_>]) -> Result<serde_json::Value> {
    let (names, values): (Vec<_>, Vec<_>) = pack.attributes(i)?.into_iter().unzip();
    let attributes = attributes_json(Attributes { names: &names, values: &values });
    Ok(json!({
        "index": i,
        "key": key.to_string(),
        "fields": fields_json(fields),
        "attributes": attributes,
        "label": pack.label(i)?,
    }))
}

pub(super) fn fields_json(fields: &[FieldRow<'_>]) -> serde_json::Value {
    let field = |field: &FieldRow<'_>| json!({ "name": field.name, "bytes": field.size, "sha256": field.sha256.to_string() });
    fields.iter().map(field).collect()
}

pub(super) fn attributes_json(attributes: Attributes<'_>) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Null => serde_json::Value::Null,
        Value::String(bytes) => encode_text(bytes, "").into_owned().into(),
        Value::Int(number) => (*number).into(),
        // JSON has no infinity.
        Value::Float(number) if !number.is_finite() => number.to_string().into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
    };
    attributes.present().map(|(name, found)| (name.to_owned(), value(found))).collect()
}

pub(crate) fn cat(args: &Cat) -> Result<ExitCode> {
    let pack = Pack::open(&args.pack)?;
    // The key as raw bytes first; the text form, as `ls` prints it, if that is none.
    let raw = KeyRef::new(args.key.as_bytes()).map(KeyRef::to_key).ok();
    let text = args.key.to_str().and_then(|text| Key::from_text(text).ok());
    for key in [raw, text].into_iter().flatten() {
        let Some(s) = pack.segment_of(key.as_ref()) else { continue };
        let tables = pack.tables(s)?;
        let index = tables.index()?;
        let Some(i) = index.find(key.as_ref()).map_err(tables.malformed())? else { continue };
        let row = index.row(i).map_err(tables.malformed())?;
        let fields: Result<Vec<_>, _> = index.fields(row).collect();
        let wanted = |field: &FieldRow<'_>| args.field.as_ref().is_none_or(|name| name == field.name);
        let Some(n) = fields.map_err(tables.malformed())?.iter().position(wanted) else {
            bail!("sample {key} has no field {}", args.field.as_deref().unwrap_or_default());
        };
        let mut bytes = Vec::new();
        tables.read(row.key, row.first_field + n as u64, &mut bytes)?;
        let mut out = io::stdout().lock();
        out.write_all(&bytes).map_err(no_output)?;
        out.flush().map_err(no_output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let key = encode_text(args.key.as_bytes(), "");
    bail!("{} has no sample {key}; `packhorse ls` lists them", path_text(&args.pack))
}
