import FoundationEssentials

/// The course: its episodes, and the video of each.
///
/// Video ids start at 1 and episode ids at 101, so confusing them is detected. URLs are relative, because the mock does
/// not know its public host name.
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

    private static let lessons = Lesson.language + Lesson.concurrency + Lesson.server

    /// Monday, 6 January 2025, 08:00 UTC. A new episode is published every week.
    private static let firstPublication = Date(timeIntervalSince1970: 1_736_150_400)
    private static let week = 604_800.0

    private static func imageURL(of lesson: Lesson) -> String {
        "/images/\(lesson.slug).svg"
    }
}
