public import Foundation

/// Somebody who is signed in.
public struct User: Decodable, Equatable, Sendable {
    /// The API's own name for the user.
    public let id: String
    /// What the user signs in with.
    public let email: String
    /// What the user is called.
    public let name: String
}

/// An episode of the course.
public struct Episode: Decodable, Equatable, Sendable, Identifiable {
    /// Unique in the list.
    public let id: Int
    /// The place in the course, counted from 1.
    public let number: Int
    /// A few words.
    public let title: String
    /// A sentence.
    public let excerpt: String
    /// A picture, for everybody.
    public private(set) var imageURL: URL
    /// What ``EpisodesClient/video(id:)`` takes.
    public let videoID: Int
    /// When it came out.
    public let publishedAt: Date

    func resolved(against gateway: URL) -> Episode {
        var episode = self
        episode.imageURL = imageURL.resolved(against: gateway)
        return episode
    }
}

/// The video of an episode.
public struct Video: Decodable, Equatable, Sendable {
    /// In seconds.
    public let duration: Int
    /// A picture to show before it plays.
    public private(set) var imageURL: URL
    /// The film itself. Where it leads to the gateway, it needs the same cookie.
    public private(set) var videoURL: URL

    func resolved(against gateway: URL) -> Video {
        var video = self
        video.imageURL = imageURL.resolved(against: gateway)
        video.videoURL = videoURL.resolved(against: gateway)
        return video
    }
}

extension URL {
    /// The address that a reference leads to (RFC 3986 §5.2); one that is absolute stays what it is.
    fileprivate func resolved(against base: URL) -> URL {
        URL(string: relativeString, relativeTo: base)?.absoluteURL ?? self
    }
}
