"""Pages with figures: one self-contained HTML file that shows a training run, an evaluation or an experiment.

    numbers (curves, collect) -> figures (figures, drawing) -> sections (sections) -> page (page)

| module     | what it holds                                                                                  |
|------------|------------------------------------------------------------------------------------------------|
| `records`  | `Table` and `Figure`, which all others exchange                                                |
| `curves`   | ROC, precision-recall, calibration and histograms from counts, without matplotlib              |
| `collect`  | what a stream of predictions leaves in bounded memory: a sample, residuals, a confusion matrix |
| `figures`  | one function per figure, from numbers to a `Figure`                                            |
| `axes`     | scales, ticks and legends that figures share                                                   |
| `drawing`  | the house style, and a `Figure` as PNG and SVG                                                 |
| `sections` | the parts of a report: learning, predictions, weights, facts                                   |
| `page`     | HTML: tables, facts, figures, and the page around them                                         |

The experiments of `reproduce` use `drawing` and `page`; the command line's `--report` uses all. matplotlib is imported
when a figure is drawn.
"""
