//! A program with proc macros and a build script, both of which are host programs.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/squares.rs"));

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
enum Shape {
    Circle {
        radius: f64,
    },
    Polygon {
        corners: Vec<(f64, f64)>,
        label: Option<String>,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Drawing {
    shapes: Vec<Shape>,
    names: BTreeMap<String, u64>,
}

fn main() {
    let drawing = Drawing {
        shapes: (0..5_000)
            .map(|i| match i % 2 {
                0 => Shape::Circle {
                    radius: f64::from(i),
                },
                _ => Shape::Polygon {
                    corners: (0..i % 9).map(|k| (f64::from(k), 0.5)).collect(),
                    label: (i % 3 == 0).then(|| format!("polygon \"{i}\"")),
                },
            })
            .collect(),
        names: SQUARES
            .iter()
            .map(|(name, square)| ((*name).to_owned(), *square))
            .collect(),
    };
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let text = serde_json::to_string_pretty(&drawing).expect("serializable");
            std::thread::spawn(move || {
                serde_json::from_str::<Drawing>(&text).expect("what was written")
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("parsed"), drawing);
    }
    assert_eq!(drawing.names["square of 31"], 961);
    println!("ok generated");
}
