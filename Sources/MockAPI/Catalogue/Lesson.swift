/// The data of an episode and its video.
struct Lesson {
    /// The unique part of its URLs.
    let slug: String
    let title: String
    let excerpt: String
    /// The duration of the video, in seconds.
    let duration: Int
}
