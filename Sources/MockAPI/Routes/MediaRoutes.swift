import HTTPTypes
import Hummingbird
import NIOCore

/// What `imageURL` and `videoURL` lead to: `/images/{name}` for everybody; `/media/{id}` with an access token.
struct MediaRoutes {
    let bearer: BearerAuthenticator

    /// Six seconds of coats on a rail, 480 × 270, VP9 without sound: every video shows the same.
    private static let clip = ByteBuffer(bytes: PackageResources.clip_webm)

    func register(on router: Router<BasicRequestContext>) {
        router.get("images/:name") { _, context in image(context.parameters.get("name") ?? "") }
        router.get("media/:id") { request, context in media(context.parameters.get("id") ?? "", for: request) }
    }

    private func image(_ name: String) -> Response {
        guard let picture = Catalogue.picture(named: name) else {
            return JSONResponse.error(.notFound, "There is no such image.")
        }
        return Response(
            status: .ok,
            headers: [
                .contentType: "image/svg+xml", .cacheControl: "public, max-age=3600",
                // Opened by itself, an SVG is a document that could run scripts. This one has none.
                .contentSecurityPolicy: "default-src 'none'", .xContentTypeOptions: "nosniff",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: picture.svg)))
    }

    /// The clip or the part of it that is asked for: players fetch a video in parts, and jump in it by asking for others.
    private func media(_ id: String, for request: Request) -> Response {
        guard bearer.account(for: request) != nil else { return bearer.rejection }
        guard Catalogue.video(withID: id) != nil else {
            return JSONResponse.error(.notFound, "There is no such video.")
        }
        let length = Self.clip.readableBytes
        var response = Response(
            status: .ok,
            headers: [
                .contentType: "video/webm", .acceptRanges: "bytes", .xContentTypeOptions: "nosniff",
                // Who signs out leaves nothing of it behind.
                .cacheControl: "private, no-store",
            ],
            body: ResponseBody(byteBuffer: Self.clip))
        switch ByteRange(request.headers[.range], length: length) {
        case .whole: break
        case .part(let range):
            response.status = .partialContent
            response.headers[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(length)"
            response.body = ResponseBody(
                byteBuffer: Self.clip.getSlice(at: Self.clip.readerIndex + range.lowerBound, length: range.count)
                    ?? ByteBuffer())
        case .unsatisfiable:
            response = JSONResponse.error(.rangeNotSatisfiable, "There are no such bytes.")
            response.headers[.contentRange] = "bytes */\(length)"
        }
        return response
    }
}
