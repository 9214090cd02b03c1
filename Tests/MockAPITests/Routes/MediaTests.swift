import FoundationEssentials
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct MediaTests {
    @Test("every picture of the catalogue is public, and all are different")
    func images() async throws {
        try await MockAPI.withServer { mock in
            var pictures: Set<String> = []
            for episode in Catalogue.episodes {
                let response = try await mock.send(.GET, episode.imageURL)
                expect(response.status, equals: 200)
                expect(response.headers["content-type"], equals: ["image/svg+xml"])
                expect(response.headers["content-security-policy"], equals: ["default-src 'none'"])
                pictures.insert(String(buffer: response.body))
            }
            expect(pictures.count, equals: Catalogue.episodes.count)
            expect(pictures.allSatisfy { $0.hasPrefix("<svg ") && $0.hasSuffix("</svg>\n") && !$0.contains("style=") })
            for unknown in ["/images/none.svg", "/images/values-first", "/images/values-first.jpg"] {
                try await expect(mock.send(.GET, unknown).status, equals: 404, "\(unknown)")
            }
        }
    }

    @Test("every video of the catalogue requires an access token and must not be stored")
    func videos() async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            for episode in Catalogue.episodes {
                let video = try require(Catalogue.video(withID: "\(episode.videoID)"))
                let response = try await mock.send(.GET, video.videoURL, authorization: bearer)
                expect(response.status, equals: 200)
                expect(response.headers["content-type"], equals: ["video/webm"])
                expect(response.headers["cache-control"], equals: ["private, no-store"])
                // The first bytes of Matroska (RFC 8794 §11.2.1).
                expect(Array(response.body.readableBytesView.prefix(4)), equals: [0x1a, 0x45, 0xdf, 0xa3])
            }
            try await expect(mock.send(.GET, "/media/99", authorization: bearer).status, equals: 404)
            try await expect(mock.send(.GET, "/media/99").status, equals: 401)
            try await expect(mock.send(.GET, "/media/1", authorization: "Bearer x").status, equals: 401)
        }
    }

    @Test("a partial response contains the requested range of the video")
    func ranges() async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            let whole = try await mock.send(.GET, "/media/1", authorization: bearer).body
            #expect(whole.readableBytes < 32_000)
            let part = try await mock.send(
                .GET, "/media/1", authorization: bearer, headers: [("Range", "bytes=1000-1999")])
            expect(part.status, equals: 206)
            expect(part.headers["content-range"], equals: ["bytes 1000-1999/\(whole.readableBytes)"])
            expect(part.headers["content-length"], equals: ["1000"])
            expect(part.body, equals: whole.getSlice(at: 1_000, length: 1_000))
            let behind = try await mock.send(
                .GET, "/media/1", authorization: bearer, headers: [("Range", "bytes=99999-")])
            expect(behind.status, equals: 416)
            expect(behind.headers["content-range"], equals: ["bytes */\(whole.readableBytes)"])
            let stranger = try await mock.send(.GET, "/media/1", headers: [("Range", "bytes=0-0")])
            expect(stranger.status, equals: 401)
        }
    }
}
