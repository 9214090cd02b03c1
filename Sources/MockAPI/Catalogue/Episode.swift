import FoundationEssentials

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
