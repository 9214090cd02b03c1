import Foundation

/// A signed-in user.
struct User: Decodable, Equatable, Sendable {
    /// The id of the user in the API.
    let id: String
    /// The e-mail address for sign-in.
    let email: String
    /// The display name.
    let name: String
}

/// An episode of the course.
struct Episode: Decodable, Equatable, Sendable, Identifiable {
    /// Unique in the list.
    let id: Int
    /// The position in the course, from 1.
    let number: Int
    let title: String
    /// A one-sentence summary.
    let excerpt: String
    /// A public picture.
    private(set) var imageURL: URL
    /// The id for ``EpisodesClient/video(id:)``.
    let videoID: Int
    /// The time of publication.
    let publishedAt: Date

    func resolved(against gateway: URL) -> Episode {
        var episode = self
        episode.imageURL = imageURL.resolved(against: gateway)
        return episode
    }
}

struct Video: Decodable, Equatable, Sendable {
    /// The duration in seconds.
    let duration: Int
    /// The poster image.
    private(set) var imageURL: URL
    /// The video file. If the URL is on the gateway, it requires the same cookie.
    private(set) var videoURL: URL

    func resolved(against gateway: URL) -> Video {
        var video = self
        video.imageURL = imageURL.resolved(against: gateway)
        video.videoURL = videoURL.resolved(against: gateway)
        return video
    }
}

extension URL {
    /// The URL of a reference (RFC 3986 §5.2); an absolute one is unchanged.
    fileprivate func resolved(against base: URL) -> URL {
        URL(string: relativeString, relativeTo: base)?.absoluteURL ?? self
    }
}
