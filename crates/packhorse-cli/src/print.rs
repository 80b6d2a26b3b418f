use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use packhorse::{Phase, Progress, Tally, path_text};

/// Prints a line to standard error. Nothing can be done where that fails.
fn line(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn error(text: &str) {
    line(&format!("error: {text}"));
}

pub(crate) fn hint(text: &str) {
    line(&format!("hint: {text}"));
}

pub(crate) fn note(text: &str) {
    line(text);
}

/// Writes data to standard output.
pub(crate) fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(no_output)
}

/// Says that it was standard output that could not be written.
pub(crate) fn no_output(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Writes a JSON value and a line end to standard output.
pub(crate) fn json(value: &serde_json::Value) -> io::Result<()> {
    data(&format!("{value:#}\n"))
}

/// A number with separators: 1,234,567.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in decimal units: 1.55 GB.
pub(crate) fn bytes(number: u64) -> String {
    indicatif::DecimalBytes(number).to_string()
}

/// A count with its noun: 1 file, 2 files, 2 groups of files.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let (first, rest) = noun.split_at(noun.find(' ').unwrap_or(noun.len()));
    let s = if number == 1 { "" } else { "s" };
    format!("{} {first}{s}{rest}", count(number))
}

/// A path as a shell takes it for one word.
pub(crate) fn word(path: &Path) -> String {
    let text = path_text(path);
    let plain = |c: char| c.is_alphanumeric() || "_-./+=:@%,".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The first names of a tally, for one line.
pub(crate) fn some(tally: &Tally) -> String {
    let mut names: Vec<_> = tally.names.iter().take(3).map(|name| path_text(name).into_owned()).collect();
    if tally.count > names.len() as u64 {
        names.push("...".into());
    }
    names.join(", ")
}

pub(crate) fn tally_json(tally: &Tally) -> serde_json::Value {
    serde_json::json!({ "count": tally.count, "names": tally.names.iter().map(|name| path_json(name)).collect::<Vec<_>>() })
}

pub(crate) fn path_json(path: &Path) -> serde_json::Value {
    path_text(path).into_owned().into()
}

/// Shows how a run gets on: a bar on a terminal, a line now and then elsewhere.
pub(crate) struct Shown {
    quiet: bool,
    terminal: bool,
    current: Mutex<Option<Current>>,
    samples: AtomicU64,
    bytes: AtomicU64,
    started: OnceLock<Instant>,
}

struct Current {
    phase: Phase,
    totals: (Option<u64>, Option<u64>),
    began: Instant,
    said: Instant,
    bar: Option<ProgressBar>,
}

const EVERY: Duration = Duration::from_secs(10);

impl Shown {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: io::stderr().is_terminal(),
            current: Mutex::new(None),
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            started: OnceLock::new(),
        }
    }

    /// Removes the bar, so that what follows stands alone; returns the time since the first phase.
    pub(crate) fn finish(&self) -> Duration {
        if let Some(bar) = self.current.lock().ok().and_then(|mut current| current.take()).and_then(|c| c.bar)
        {
            bar.finish_and_clear();
        }
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }
}

impl Progress for Shown {
    fn begin(&self, phase: Phase, samples: Option<u64>, total_bytes: Option<u64>) {
        self.started.get_or_init(Instant::now);
        self.finish();
        self.samples.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        let bar = (!self.quiet && self.terminal).then(|| {
            let bar = ProgressBar::new(total_bytes.or(samples).unwrap_or(0));
            let style = match (total_bytes, samples) {
                (Some(_), _) => "{prefix} {wide_bar} {percent:>3} %  {decimal_bytes_per_sec}, {eta} left",
                (None, Some(_)) => "{prefix} {wide_bar} {percent:>3} %  {per_sec}, {eta} left",
                (None, None) => "{prefix} {spinner} {human_pos} files, {per_sec}",
            };
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_prefix(phase.to_string());
            bar
        });
        let now = Instant::now();
        let current = Current { phase, totals: (samples, total_bytes), began: now, said: now, bar };
        if let Ok(mut place) = self.current.lock() {
            *place = Some(current);
        }
    }

    fn advance(&self, samples: u64, bytes_more: u64) {
        if self.quiet {
            return;
        }
        let done_samples = self.samples.fetch_add(samples, Ordering::Relaxed) + samples;
        let done_bytes = self.bytes.fetch_add(bytes_more, Ordering::Relaxed) + bytes_more;
        // Whoever finds the place taken leaves the showing to the other.
        let Ok(mut current) = self.current.try_lock() else { return };
        let Some(current) = &mut *current else { return };
        if let Some(bar) = &current.bar {
            bar.set_position(if current.totals.1.is_some() { done_bytes } else { done_samples });
        } else if current.said.elapsed() >= EVERY {
            current.said = Instant::now();
            let of = current.totals.0.map_or_else(String::new, |total| format!(" of {}", count(total)));
            let seconds = current.began.elapsed().as_secs_f64();
            let rate = bytes((done_bytes as f64 / seconds) as u64);
            let left = current.totals.1.filter(|_| done_bytes > 0).map_or_else(String::new, |total| {
                let left = seconds * (total.saturating_sub(done_bytes)) as f64 / done_bytes as f64;
                format!(", {left:.0} s left")
            });
            line(&format!("{}: {}{of} samples, {rate}/s{left}", current.phase, count(done_samples)));
        }
    }
}
