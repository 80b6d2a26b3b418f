use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use minijinja::{Environment, Value, context};
use packhorse::{Images, Label, SheetImage, Stat, path_text};

use super::{name_text, orientation};
use crate::print::{bytes, count, counted};

/// Rows of a table on the page.
const ROWS: usize = 300;

/// Makes a page that needs nothing beside itself: no script, no file, no network.
pub(super) fn page(stat: &Stat, pack: &Path) -> Result<String> {
    let mut environment = Environment::new();
    environment.add_template("report.html", include_str!("report.html")).context("the page's template")?;
    let template = environment.get_template("report.html").context("the page's template")?;
    let duplicates: Vec<_> = stat
        .duplicates
        .listed
        .iter()
        .take(ROWS)
        .map(|group| {
            let samples = group.samples.iter().take(ROWS).map(|(key, class, split)| {
                let labels: Vec<_> =
                    [split, class].into_iter().flatten().map(|name| name_text(Some(name))).collect();
                (key.to_string(), labels.join(", "))
            });
            let more = group.samples.len().saturating_sub(ROWS);
            (samples.collect::<Vec<_>>(), more)
        })
        .collect();
    let sheet = stat.sheet.as_ref().map(|sheet| {
        let classes: Vec<_> = sheet
            .classes
            .iter()
            .map(|(class, images)| {
                (name_text(class.as_deref()), images.iter().map(picture).collect::<Vec<_>>())
            })
            .collect();
        (classes, sheet.left_out)
    });
    let steps = stat
        .size_steps
        .iter()
        .map(|(size, samples)| (format!("up to {}", indicatif::BinaryBytes(*size)), *samples));
    let page = template.render(context! {
        name => path_text(Path::new(pack.file_name().unwrap_or(pack.as_os_str()))),
        facts => [
            ("samples", count(stat.samples)),
            ("payload", format!("{}, stored in {}", bytes(stat.bytes), bytes(stat.stored))),
            ("sample sizes", format!("{} to {} bytes", count(stat.sizes.0), count(stat.sizes.1))),
            ("container", format!("{}, {}", stat.container, counted(stat.segments as u64, "segment"))),
            ("version", stat.version.to_string()),
            ("content root", stat.content_root.to_string()),
            ("attribute root", stat.attribute_root.to_string()),
        ],
        classes => groups(&stat.classes),
        classes_left_out => stat.classes.len().saturating_sub(ROWS),
        splits => groups(&stat.splits),
        sizes => bars(steps),
        problems => problems(stat),
        duplicates => context! {
            groups => stat.duplicates.groups,
            summary => format!(
                "{}, with {} beside the first of each.",
                counted(stat.duplicates.groups, "group"),
                counted(stat.duplicates.copies, "sample")
            ),
            listed => duplicates,
        },
        images => stat.images.as_ref().map(images),
        sheet => sheet,
    });
    page.context("the page")
}

/// What stands out, and where on the page it is.
fn problems(stat: &Stat) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    let mut say = |number: u64, place, noun: &str, what: &str| {
        if number > 0 {
            problems.push((place, format!("{} {what}", counted(number, noun))));
        }
    };
    let group = "group of equal bytes";
    say(stat.duplicates.across_splits, "equal", group, "across splits: leaks");
    say(stat.duplicates.across_classes, "equal", group, "across classes: labels that contradict each other");
    if let Some(images) = &stat.images {
        say(images.broken, "images", "image", "that cannot be decoded");
        for (what, tally) in &images.findings {
            say(tally.count, "images", "file", what);
        }
    }
    problems
}

fn images(images: &Images) -> Value {
    let formats = images.formats.iter().map(|(format, (number, _))| (format.to_string(), *number));
    let findings: Vec<_> = images
        .findings
        .iter()
        .map(|(what, tally)| {
            let names: Vec<_> =
                tally.names.iter().take(ROWS).map(|name| path_text(name).into_owned()).collect();
            (what.clone(), tally.count, names)
        })
        .collect();
    let broken: Vec<_> = images
        .listed
        .iter()
        .take(ROWS)
        .map(|broken| (broken.name.clone(), bytes(broken.bytes), broken.what.clone()))
        .collect();
    context! {
        files => images.files,
        formats => bars(formats.chain((images.others > 0).then(|| ("no known image".to_owned(), images.others)))),
        modes => bars(images.modes.iter().map(|(mode, number)| ((*mode).to_owned(), *number))),
        orientations => bars(images.orientations.iter().map(|(number, found)| (format!("{number}: {}", orientation(*number)), *found))),
        sides => bars(images.sides.iter().map(|(side, number)| (format!("up to {side} px"), *number))),
        widths => images.widths,
        heights => images.heights,
        findings => findings,
        decoded => images.decoded,
        broken => images.broken,
        broken_listed => broken,
        not_decoded => images.not_decoded.iter().map(|(format, number)| (format.to_string(), *number)).collect::<Vec<_>>(),
    }
}

fn picture(image: &SheetImage) -> (String, Option<String>) {
    let source = image.thumbnail.as_ref().map(|thumbnail| {
        format!("data:{};base64,{}", thumbnail.mime, BASE64_STANDARD.encode(&thumbnail.bytes))
    });
    (image.key.clone(), source)
}

fn groups(counts: &BTreeMap<Label, (u64, u64)>) -> Value {
    let rows = counts.iter().take(ROWS);
    table(rows.map(|(name, (samples, total))| (name_text(name.as_deref()), *samples, bytes(*total))))
}

fn bars(rows: impl Iterator<Item = (String, u64)>) -> Value {
    table(rows.map(|(name, number)| (name, number, String::new())))
}

/// Rows with a bar each, as long in percent as its number is of the greatest.
fn table(rows: impl Iterator<Item = (String, u64, String)>) -> Value {
    let rows: Vec<_> = rows.collect();
    let most = rows.iter().map(|(_, number, _)| *number).max().unwrap_or(1).max(1);
    let bar = |(name, number, note): (String, u64, String)| {
        let percent = (number as f64 / most as f64 * 1000.0).ceil() / 10.0;
        context! { name => name, number => count(number), note => note, percent => percent }
    };
    rows.into_iter().map(bar).collect::<Vec<_>>().into()
}
