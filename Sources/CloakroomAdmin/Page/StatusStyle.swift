/// The style sheet `/status.css`. It loads nothing, and all text colours have a contrast of at least 4.5 against their
/// background, in light and dark mode.
enum StatusStyle {
    static let css = """
        :root {
            color-scheme: light dark;
            --ground: #f4f5f7; --sheet: #ffffff; --line: #d9dde3; --head: #eef0f3;
            --text: #1a1f26; --soft: #565f6b; --link: #0b57b0;
            --good: #0f6235; --good-ground: #dcf3e4;
            --warning: #754700; --warning-ground: #fdf0c8; --warning-line: #e2c15f;
            --bad: #9c1126; --bad-ground: #fde4e6; --bad-line: #e79aa4;
        }
        @media (prefers-color-scheme: dark) {
            :root {
                --ground: #0f1216; --sheet: #171b21; --line: #2b323c; --head: #1e242c;
                --text: #e4e8ee; --soft: #9aa5b3; --link: #7db7ff;
                --good: #6fdc98; --good-ground: #12301f;
                --warning: #f0c464; --warning-ground: #33270c; --warning-line: #6d5417;
                --bad: #ff9aa5; --bad-ground: #3a151b; --bad-line: #7d2f3a;
            }
        }
        * { box-sizing: border-box; }
        html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
        body {
            margin: 0; background: var(--ground); color: var(--text);
            font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
        }
        a { color: var(--link); text-underline-offset: .15em; }
        a:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
        .column { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }

        header { background: var(--sheet); border-bottom: 1px solid var(--line); border-top: .4rem solid var(--mark); }
        header.good { --mark: #1f9d57; }
        header.warning { --mark: #d39a1c; }
        header.bad { --mark: #d3293f; }
        header .column {
            display: grid; grid-template-columns: 1fr auto; gap: 0 2rem; align-items: end;
            padding-top: .9rem; padding-bottom: 1rem;
        }
        header p { margin: 0; }
        .brand, .now { color: var(--soft); }
        .brand a { color: var(--text); font-weight: 700; text-decoration: none; }
        .brand a:hover { text-decoration: underline; }
        .commit { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85em; }
        .now, .links { text-align: right; }
        h1 {
            font-size: 2.1rem; line-height: 1.2; margin: .25rem 0 .1rem; grid-row: 2; display: flex; align-items: center;
            overflow-wrap: anywhere; min-width: 0;
        }
        .light { flex: none; width: .62em; height: .62em; border-radius: 50%; background: var(--mark); margin-right: .45em; }
        .meaning { grid-column: 1; grid-row: 3; }
        .now { grid-column: 2; grid-row: 1; font-variant-numeric: tabular-nums; }
        .links { grid-column: 2; grid-row: 3; }
        .links > * { margin-left: 1rem; }

        main.column {
            display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; padding-block: 1.1rem 3rem;
        }
        section {
            background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.1rem 1.1rem;
            min-width: 0; scroll-margin-top: 1rem;
        }
        section.wide { grid-column: 1 / -1; }
        section.bare { background: none; border: 0; padding: 0; }
        section:target { outline: 2px solid var(--link); outline-offset: 2px; }
        h2 { font-size: 1.05rem; line-height: 1.3; margin: 0 0 .6rem; }
        small { display: block; color: var(--soft); font-size: .84em; font-weight: normal; }

        .alerts ul { list-style: none; margin: 0; padding: 0; display: grid; gap: .35rem; }
        .alerts a {
            display: flex; gap: .8rem; padding: .35rem .75rem; border-radius: .4rem; border: 1px solid;
            color: var(--text); text-decoration: none; overflow-wrap: anywhere;
        }
        .alerts a:hover span { text-decoration: underline; }
        .alerts b { flex: 0 0 4.6rem; }
        .alerts .bad { background: var(--bad-ground); border-color: var(--bad-line); }
        .alerts .bad b { color: var(--bad); }
        .alerts .warning { background: var(--warning-ground); border-color: var(--warning-line); }
        .alerts .warning b { color: var(--warning); }

        dl { margin: 0; }
        dt { color: var(--soft); }
        dd { margin: 0; overflow-wrap: anywhere; }
        .figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem; }
        .figures > div {
            background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem .75rem;
        }
        .figures dt { font-size: .9em; }
        .figures dd { font-size: 1.75rem; line-height: 1.25; font-weight: 600; font-variant-numeric: tabular-nums; }
        .figures small { font-size: .84rem; }
        .figures .bad { background: var(--bad-ground); border-color: var(--bad-line); }
        .figures .warning { background: var(--warning-ground); border-color: var(--warning-line); }
        .figures .bad dd { color: var(--bad); }
        .figures .warning dd { color: var(--warning); }
        .figures .bad :is(dt, small), .figures .warning :is(dt, small) { color: var(--text); }

        .trends { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem 1.5rem; }
        .trends > div { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .2rem .9rem; }
        .trends dt { grid-column: 1 / -1; font-size: .9em; }
        .trends b { color: var(--text); font-variant-numeric: tabular-nums; }
        .trends .empty { display: block; height: 2.4rem; }
        svg { display: block; width: 100%; height: 2.4rem; border-bottom: 1px solid var(--line); }
        path { fill: none; stroke: var(--link); stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round; }

        .facts { display: grid; gap: .3rem; }
        .facts > div { display: grid; grid-template-columns: 9.5rem minmax(0, 1fr); gap: .75rem; }
        .facts.facts dd { font-variant-numeric: tabular-nums; }
        .facts .good dd { color: var(--good); font-weight: 600; }
        .facts .warning dd { color: var(--warning); font-weight: 600; }
        .facts .bad dd { color: var(--bad); font-weight: 600; }
        .complaints {
            list-style: none; margin: .75rem 0 0; padding: .6rem .8rem; border-radius: .4rem; display: grid; gap: .4rem;
            background: var(--bad-ground); border: 1px solid var(--bad-line);
            font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere;
        }

        .scroll { overflow-x: auto; margin: 0 -1.1rem; padding: 0 1.1rem; }
        .facts + .scroll, .facts + .empty, .scroll + .scroll, .scroll + .empty,
        .empty + .scroll, .empty + .empty { margin-top: 1rem; }
        table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
        caption { caption-side: top; text-align: left; color: var(--soft); padding-bottom: .4rem; font-size: .9em; }
        caption > span { position: sticky; left: 0; display: inline-block; }
        th, td { text-align: left; vertical-align: top; padding: .38rem .6rem; border-bottom: 1px solid var(--line); }
        tbody tr:last-child > * { border-bottom: 0; }
        thead th { color: var(--soft); font-weight: 600; font-size: .88em; white-space: nowrap; vertical-align: bottom; }
        tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 8rem; max-width: 24rem; }
        th:first-child { padding-left: 0; }
        th:last-child, td:last-child { padding-right: 0; }
        td { overflow-wrap: break-word; }
        td.prose { min-width: 13rem; overflow-wrap: anywhere; }
        td.whole, .number { white-space: nowrap; }
        .number { text-align: right; }
        .quiet { color: var(--soft); }
        td.good > span, td.warning > span, td.bad > span {
            display: inline-block; padding: 0 .5em; margin: 0 -.5em; border-radius: .3rem; font-weight: 600;
            white-space: nowrap;
        }
        td.good > span { color: var(--good); background: var(--good-ground); }
        td.warning > span { color: var(--warning); background: var(--warning-ground); }
        td.bad > span { color: var(--bad); background: var(--bad-ground); }
        td.number.bad > span::before { content: "▲ " / ""; }
        td:not(.number) > span { margin: 0; }
        thead a { color: inherit; }
        [aria-sort="ascending"] a::after { content: " ↑" / ""; }
        [aria-sort="descending"] a::after { content: " ↓" / ""; }
        .filters { margin: 0 0 .5rem; }
        .filters a { margin-right: 1rem; }
        [aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
        .scroll + .filters, .empty + .filters { margin-top: 1rem; }
        .empty { margin: 0; color: var(--soft); }

        @media (max-width: 52rem) {
            main.column { grid-template-columns: minmax(0, 1fr); gap: .8rem; }
            .column { padding-inline: .9rem; }
            header .column { grid-template-columns: minmax(0, 1fr); }
            header .column > * { grid-column: 1; grid-row: auto; text-align: left; }
            .links { margin-top: .5rem; }
            .links > * { margin: 0 1rem 0 0; line-height: 2; }
            .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .8rem; }
            .facts > div { grid-template-columns: 36% minmax(0, 1fr); }
            .figures > :last-child:nth-child(odd) { grid-column: 1 / -1; }
            .scroll { padding: 0; margin: 0; overflow-x: visible; }
            /* A row is a card: its subject, then each value with the name of its column. The roles in the markup keep
               the table a table for assistive technology. */
            table, caption, thead, tbody, tbody th, td { display: block; }
            tr { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 1.2rem; }
            tbody tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
            tbody tr:last-child { border-bottom: 0; padding-bottom: 0; }
            tbody th { grid-column: 1 / -1; max-width: none; }
            tbody th, td, thead th { border: 0; padding: .1rem 0; }
            td { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .6rem; text-align: right; }
            td::before { content: attr(data-label); color: var(--soft); font-weight: normal; text-align: left; }
            td > small { flex: 1 0 100%; }
            td.prose, td.whole { grid-column: 1 / -1; min-width: 0; white-space: normal; overflow-wrap: anywhere; }
            td.good > span, td.warning > span, td.bad > span { margin: 0; white-space: normal; }
            /* The header remains where it sorts. */
            thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
            .sortable thead { position: static; width: auto; height: auto; clip-path: none; }
            .sortable thead tr { display: flex; flex-wrap: wrap; gap: .2rem .9rem; padding-bottom: .3rem; }
            .sortable thead tr::before { content: "Sort"; color: var(--soft); }
            .sortable thead th:not(:has(a)) { display: none; }
            .alerts a { flex-direction: column; gap: 0; }
            .alerts b { flex: none; }
        }
        @media print {
            .links { display: none; }
            section { break-inside: avoid; }
        }

        """
}
