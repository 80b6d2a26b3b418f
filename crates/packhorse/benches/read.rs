//! What one access to a sample costs. `PACK=/some/photos.pack cargo bench -p packhorse` measures a pack of one's own;
//! without it, a pack of 100,000 small files is made.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark makes its files, and may panic"
)]

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use packhorse::{Pack, PackOptions, SourceOptions, Tree, pack};

/// The pack to measure, and the folder that holds it if it is temporary.
fn place() -> (PathBuf, Option<tempfile::TempDir>) {
    if let Some(pack) = std::env::var_os("PACK") {
        return (pack.into(), None);
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("src"), folder.path().join("pack"));
    for class in 0..100 {
        let class = source.join(format!("class-{class:03}"));
        fs::create_dir_all(&class).unwrap();
        for file in 0..1000 {
            fs::write(class.join(format!("{file:04}.txt")), format!("{file} in {class:?}")).unwrap();
        }
    }
    pack(&Tree::open(source, &SourceOptions::default()).unwrap(), &out, &PackOptions::default(), &())
        .unwrap();
    (out, Some(folder))
}

fn read(criterion: &mut Criterion) {
    let (path, _folder) = place();
    criterion.bench_function("open", |bencher| bencher.iter(|| Pack::open(&path).unwrap()));

    let pack = Pack::open(&path).unwrap();
    // Neither in order nor at random: a stride that visits all samples and no two neighbours.
    let mut i = 0;
    let mut next = || {
        i = (i + 7_368_787) % pack.len();
        i
    };
    for i in 0..pack.len() {
        black_box(pack.get(i).unwrap().key().unwrap());
    }
    criterion.bench_function("get, bytes untouched", |bencher| {
        bencher.iter(|| black_box(pack.get(next()).unwrap().data().unwrap().len()))
    });
    criterion.bench_function("get with key", |bencher| {
        bencher.iter(|| black_box(pack.get(next()).unwrap().key().unwrap().as_bytes().len()))
    });
    let keys: Vec<_> = (0..1000).map(|_| pack.key(next()).unwrap()).collect();
    let mut keys = keys.iter().cycle();
    criterion.bench_function("get_key", |bencher| {
        bencher.iter(|| black_box(pack.get_key(keys.next().unwrap().as_ref().as_bytes()).unwrap().is_some()))
    });
}

criterion_group!(benches, read);
criterion_main!(benches);
