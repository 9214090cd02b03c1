import NIOCore
import NIOHTTP1

/// The targets of `imageURL` and `videoURL`: public `/images/{name}`; `/media/{id}` with an access token.
struct MediaRoutes {
    let bearer: BearerAuthenticator

    /// Six seconds of coats on a rail, 480 × 270, VP9 without sound; the same for every video.
    private static let clip = ByteBuffer(bytes: PackageResources.clip_webm)

    var routes: RouteTable {
        [
            "GET /images/*": { image($0.lastSegment) },
            "GET /media/*": { request in bearer.respond(request) { _ in media(request) } },
        ]
    }

    private func image(_ name: String) -> MockResponse {
        guard let picture = Catalogue.picture(named: name) else { return .error(.notFound, "No such image.") }
        return MockResponse(
            .ok,
            [
                "Content-Type": "image/svg+xml", "Cache-Control": "public, max-age=3600",
                // An SVG opened directly is a document that could run scripts; this one has none.
                "Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff",
            ], text: picture.svg)
    }

    /// The clip or the requested range: players fetch a video in ranges and seek by requesting others.
    private func media(_ request: MockRequest) -> MockResponse {
        guard Catalogue.video(withID: request.lastSegment) != nil else { return .error(.notFound, "No such video.") }
        let length = Self.clip.readableBytes
        var response = MockResponse(
            .ok,
            [
                "Content-Type": "video/webm", "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff",
                // After sign-out no copy remains in the browser cache.
                "Cache-Control": "private, no-store",
            ], body: Self.clip)
        switch ByteRange(request.fields.first(name: "Range"), length: length) {
        case .whole: break
        case .part(let range):
            response.status = .partialContent
            response.fields.add(
                name: "Content-Range", value: "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(length)")
            response.body =
                Self.clip.getSlice(at: Self.clip.readerIndex + range.lowerBound, length: range.count) ?? ByteBuffer()
        case .unsatisfiable:
            response = .error(.rangeNotSatisfiable, "The requested range is not available.")
            response.fields.add(name: "Content-Range", value: "bytes */\(length)")
        }
        return response
    }
}

/// The part of a resource requested by `Range` (RFC 9110 §14.1.2, §14.2).
enum ByteRange: Equatable {
    /// The whole resource: no range was requested, or none that must be honoured.
    case whole
    /// These bytes, at least one.
    case part(Range<Int>)
    /// A range outside of the resource (416).
    case unsatisfiable

    /// Parses the field for a resource of `length` bytes. Multiple ranges, other units and malformed values are
    /// ignored, as permitted.
    init(_ field: String?, length: Int) {
        self = .whole
        guard let field, field.lowercased().hasPrefix("bytes=") else { return }
        let spec = field.dropFirst("bytes=".count)
        let ends = spec.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.position(ends[0]), let last = Self.position(ends[1]) else { return }
        switch (first, last) {
        case (nil, nil): return
        case (nil, let count?): self = Self.clamped(max(0, length - count), length, length)
        case (let first?, nil): self = Self.clamped(first, length, length)
        case (let first?, let last?):
            guard first <= last else { return }
            self = Self.clamped(first, last < length ? last + 1 : length, length)
        }
    }

    private static func clamped(_ start: Int, _ end: Int, _ length: Int) -> ByteRange {
        start < length && start < end ? .part(start..<end) : .unsatisfiable
    }

    /// A number; `.some(nil)` for an empty text; `nil` for other text.
    private static func position(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else { return nil }
        return .some(number)
    }
}
