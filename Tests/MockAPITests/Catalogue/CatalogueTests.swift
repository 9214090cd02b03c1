import TestSupport
import Testing

@testable import MockAPI

struct CatalogueTests {
    @Test("there are at least 20 episodes, each with a unique id, title and text")
    func episodes() {
        let episodes = Catalogue.episodes
        #expect(episodes.count >= 20)
        expect(Set(episodes.map(\.id)).count, equals: episodes.count)
        expect(Set(episodes.map(\.title)).count, equals: episodes.count)
        expect(Set(episodes.map(\.excerpt)).count, equals: episodes.count)
        expect(Set(episodes.map(\.imageURL)).count, equals: episodes.count)
    }

    @Test("every episode has a unique video with a plausible length")
    func videos() throws {
        var urls: Set<String> = []
        for episode in Catalogue.episodes {
            let video = try require(Catalogue.video(withID: "\(episode.videoID)"))
            expect((60...3600).contains(video.duration))
            urls.insert(video.videoURL)
        }
        expect(urls.count, equals: Catalogue.episodes.count)
    }

    @Test("an id has only one notation", arguments: ["0", "01", "+1", "-1", " 1", "1 ", "25", "101", "", "x", "१"])
    func unknownVideos(id: String) {
        expect(Catalogue.video(withID: id), equals: nil)
    }
}
