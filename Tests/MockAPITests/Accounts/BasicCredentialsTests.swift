import FoundationEssentials
import NIOHTTP1
import Testing

@testable import MockAPI

struct BasicCredentialsTests {
    private func credentials(_ values: String...) -> BasicCredentials? {
        BasicCredentials(HTTPHeaders(values.map { ("Authorization", $0) }))
    }

    @Test("the first colon is the separator, so a password may contain colons")
    func firstColon() {
        let read = credentials(.basic("jo@example.com", "a:b:"))
        #expect(read?.email == "jo@example.com")
        #expect(read?.password == "a:b:")
    }

    @Test("user-id and password are UTF-8")
    func utf8() {
        let read = credentials(.basic("jörg@example.com", "pässwörd🔑"))
        #expect(read?.email == "jörg@example.com")
        #expect(read?.password == "pässwörd🔑")
    }

    @Test("the scheme is case-insensitive and may be followed by several spaces")
    func scheme() {
        let encoded = Data("a:b".utf8).base64EncodedString()
        #expect(credentials("bAsIc   \(encoded)")?.password == "b")
    }

    @Test(
        "malformed Basic credentials are ignored",
        arguments: [
            "", "Basic", "Basic ", "Basic !!!", "Bearer YTpi", "Basic bm9jb2xvbg==", "Basic /zr/", "YTpi",
        ])
    func rejected(value: String) {
        #expect(credentials(value) == nil)
    }

    @Test("two Authorization fields are ignored, even if they are equal")
    func doubled() {
        #expect(credentials("Basic YTpi", "Basic YTpi") == nil)
        #expect(credentials("Basic YTpi") != nil)
    }
}
