/// The picture of a lesson, generated from its number: a coat on a hanger with its ticket.
struct LessonPicture {
    /// The number, from 1.
    let number: Int

    /// 320 × 180 vector graphic. Colours are attributes, because a content security policy may forbid styles.
    var svg: String {
        // Steps by the golden angle: the colours of neighbours differ clearly.
        let hue = (12 + number * 137) % 360
        let coat = "hsl(\(hue),52%,52%)"
        let tilt = [-5, 3, -2, 6, -4, 2, 5][number % 7]
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 180">
            <rect width="320" height="180" fill="hsl(\(hue),24%,15%)"/>
            <rect y="24" width="320" height="5" fill="hsl(\(hue),18%,52%)"/>
            <g transform="translate(160 30) rotate(\(tilt))">
            <path d="M0 -6v16L-38 26H38L0 10" fill="none" stroke="#e8dfcf" stroke-width="3"/>
            <path d="M-11 16H11L42 30 56 96 38 100 31 62 34 142H-34L-31 62-38 100-56 96-42 30Z" fill="\(coat)"/>
            <path d="M0 18V142" stroke="hsl(\(hue),24%,15%)" stroke-width="2"/>
            <path d="M34 60l28 46" stroke="#e8dfcf" stroke-width="1.5"/>
            <g transform="translate(64 118) rotate(14)">
            <rect x="-24" y="-15" width="48" height="30" rx="4" fill="#f5ecd9"/>
            <text y="8" text-anchor="middle" font-family="Georgia,serif" font-size="22" font-weight="bold" \
            fill="#3a2a20">\(number)</text>
            </g>
            </g>
            </svg>

            """
    }
}
