/// What an episode and its video are made from.
struct Lesson {
    /// The part of its addresses that is its own.
    let slug: String
    let title: String
    let excerpt: String
    /// Of the video, in seconds.
    let duration: Int
}
