import FoundationEssentials

/// The course: its episodes, and the video of each.
///
/// Video ids start at 1 and episode ids at 101, so confusing them is detected. URLs are relative, because the mock does
/// not know its public host name.
///
/// Folder `Catalogue/`: the fictional content that the routes return.
enum Catalogue {
    static let episodes: [Episode] = lessons.enumerated().map { index, lesson in
        Episode(
            id: 101 + index,
            number: 1 + index,
            title: lesson.title,
            excerpt: lesson.excerpt,
            imageURL: imageURL(of: lesson),
            videoID: 1 + index,
            publishedAt: firstPublication.addingTimeInterval(Double(index) * week))
    }

    /// `nil` for an unknown id and for an id in non-canonical notation, such as `01`.
    static func video(withID id: String) -> Video? {
        guard let number = Int(id), String(number) == id, lessons.indices.contains(number - 1) else { return nil }
        let lesson = lessons[number - 1]
        return Video(
            duration: lesson.duration,
            imageURL: imageURL(of: lesson),
            videoURL: "/media/\(number)")
    }

    /// The picture for the last path segment of an `imageURL`.
    static func picture(named name: String) -> LessonPicture? {
        guard let index = lessons.firstIndex(where: { "\($0.slug).svg" == name }) else { return nil }
        return LessonPicture(number: 1 + index)
    }

    private static let lessons = Lesson.all

    /// Monday, 6 January 2025, 08:00 UTC. A new episode is published every week.
    private static let firstPublication = Date(timeIntervalSince1970: 1_736_150_400)
    private static let week = 604_800.0

    private static func imageURL(of lesson: Lesson) -> String {
        "/images/\(lesson.slug).svg"
    }
}

/// An episode as listed by `GET /episodes`.
struct Episode: Encodable, Equatable, Sendable {
    let id: Int
    let number: Int
    let title: String
    let excerpt: String
    let imageURL: String
    let videoID: Int
    let publishedAt: Date
}

/// A video as returned by `GET /videos/{id}`.
struct Video: Encodable, Equatable, Sendable {
    /// In seconds.
    let duration: Int
    let imageURL: String
    let videoURL: String
}

/// The data of an episode and its video.
struct Lesson {
    let title: String
    /// The duration of the video, in seconds.
    let duration: Int
    let excerpt: String

    /// The unique part of its URLs: the words of its title.
    var slug: String { title.lowercased().split { !$0.isLetter }.joined(separator: "-") }
}

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
