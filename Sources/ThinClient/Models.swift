public import Foundation

/// A signed-in user.
public struct User: Decodable, Equatable, Sendable {
    /// The id of the user in the API.
    public let id: String
    /// The e-mail address for sign-in.
    public let email: String
    /// The display name.
    public let name: String
}

/// An episode of the course.
public struct Episode: Decodable, Equatable, Sendable, Identifiable {
    /// Unique in the list.
    public let id: Int
    /// The position in the course, from 1.
    public let number: Int
    /// The title.
    public let title: String
    /// A one-sentence summary.
    public let excerpt: String
    /// A public picture.
    public private(set) var imageURL: URL
    /// The id for ``EpisodesClient/video(id:)``.
    public let videoID: Int
    /// The time of publication.
    public let publishedAt: Date

    func resolved(against gateway: URL) -> Episode {
        var episode = self
        episode.imageURL = imageURL.resolved(against: gateway)
        return episode
    }
}

/// The video of an episode.
public struct Video: Decodable, Equatable, Sendable {
    /// The duration in seconds.
    public let duration: Int
    /// The poster image.
    public private(set) var imageURL: URL
    /// The video file. If the URL is on the gateway, it requires the same cookie.
    public private(set) var videoURL: URL

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
