import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

@Suite("Pages and listeners for development")
struct PagesSectionTests {
    private static func fixture(_ pages: String, logo: String = "<svg/>", style: String = "") throws -> ConfigFixture {
        let fixture = try ConfigFixture(ConfigFixture.good + "pages: { \(pages) }\n")
        try fixture.write(logo, to: "a.svg")
        try fixture.write(style, to: "a.css")
        return fixture
    }

    private static func style(_ text: String) throws -> PagesConfiguration.Style? {
        try fixture("style: a.css", style: text).load().configuration.pages.style
    }

    @Test("By default there is no page for problems, no name, no logo and no style")
    func defaults() throws {
        try expect(ConfigFixture().load().configuration.pages, equals: .defaults)
    }

    @Test("The files are part of the configuration: the logo as a URL, the style with its hash")
    func files() throws {
        let fixture = try Self.fixture("errors: true, name: \"Acme <1>\", logo: a.svg, style: a.css", style: "a{}\n")
        let pages = try fixture.load().configuration.pages
        expect(pages.errors)
        expect(pages.name, equals: "Acme <1>")
        expect(pages.logo, equals: .init(file: fixture.path + "/a.svg", url: "data:image/svg+xml;base64,PHN2Zy8+"))
        expect(pages.style?.text, equals: "a{}\n")
        // printf 'a{}\n' | openssl dgst -sha256 -binary | base64
        expect(pages.style?.digest, equals: "u0Jj2e1i7IBkNDEHdGEj6YSZteK6W+q1Sv+Vn8x343I=")
    }

    @Test("A style is hashed as browsers read it: without carriage returns")
    func lineEnds() throws {
        try expect(Self.style("a{}\r\nb{}\rc{}")?.text, equals: "a{}\nb{}\nc{}")
        try expect(Self.style("a{}\r\n")?.digest, equals: Self.style("a{}\n")?.digest)
    }

    @Test("A wrong value is one line with its place and a remedy")
    func wrongValues() throws {
        let large = String(repeating: "a", count: 65_537)
        let rows: [(pages: String, logo: String, style: String, error: String)] = [
            ("errors: yes please", "", "", "errors: must be"),
            ("name: \"\(large.prefix(65))\"", "", "", "name: must be at most 64 characters long"),
            ("logo: none.svg", "", "", "logo: must be an existing file"),
            ("logo: a.css", "", "", "logo: must be the path of an image"),
            ("logo: a.svg", String(large.prefix(32_769)), "", "logo: must be a file of at most 32 KiB"),
            ("style: a.css", "", large, "style: must be a file of at most 64 KiB"),
            ("style: a.css", "", "a{}</STYLE\u{301}><script>", "style: must be rules without HTML"),
            ("style: a.css", "", "a{\0}", "style: must be a file in UTF-8"),
            ("folder: a", "", "", "folder: unknown key"),
        ]
        for row in rows {
            let errors = try Self.fixture(row.pages, logo: row.logo, style: row.style).valueErrors()
            expect(errors.count, equals: 1)
            expect(errors.first?.contains(": pages.\(row.error)"), equals: true, "\(errors)")
        }
    }

    @Test("A file that is larger than all memory is an error like another, because it is not read")
    func largeFile() throws {
        let fixture = try Self.fixture("logo: a.svg, style: a.css")
        for name in ["a.svg", "a.css"] {
            let file = try require(FileHandle(forWritingAtPath: fixture.path + "/" + name))
            try file.truncate(atOffset: 1 << 40)
            try file.close()
        }
        let errors = fixture.valueErrors()
        expect(errors.map { $0.contains("must be a file of at most ") }, equals: [true, true], "\(errors)")
    }

    @Test("Rule 100: a listener for development may use clear text without Secure on any address, and nothing else")
    func development() throws {
        let rows: [(listener: String, rest: String, errors: [String])] = [
            ("development: true", "", []),
            ("development: false", "", ["session.cookie.secure: must be true unless all listeners are on loopback"]),
            ("development: true, behindTLSProxy: true", "", ["development: conflicts with behindTLSProxy (remove one"]),
            ("development: true, redirectToHTTPS: 443", "", ["redirectToHTTPS: ", "conflicts with redirectToHTTPS"]),
            (
                "development: true, proxyProtocol: { trustedSources: [10.0.0.1] }", "",
                ["development: conflicts with proxyProtocol"]
            ),
            ("development: true", "trustedProxies: [10.0.0.1]\n", ["development: conflicts with trustedProxies"]),
            ("development: true, tls: {}", "", ["tls.certificateFile", "conflicts with tls (remove", "tls.keyFile"]),
        ]
        for row in rows {
            let yaml =
                ConfigFixture.good.replacing(
                    "- address: 127.0.0.1:0", with: "- { address: \"0.0.0.0:0\", \(row.listener) }"
                ).replacing("    apiToken: { value: demo }\n", with: "")
                .replacing("inject: [apiToken]", with: "accessLogRatio: 1")
                .replacing("inject: [apiToken, bearer]", with: "inject: [bearer]") + row.rest
            let fixture = try ConfigFixture(yaml)
            let errors = fixture.valueErrors()
            for part in row.errors { expect(errors.contains { $0.contains(part) }, "\(part): \(errors)") }
            guard row.errors.isEmpty else { continue }
            expect(empty: errors)
            let loaded = try fixture.load()
            expect(loaded.configuration.listeners.map(\.isForDevelopment), equals: [true])
            expect(loaded.configuration.session.cookie.name, equals: "cloakroom")
            expect(loaded.warnings.contains { $0.description.contains("publish its port on 127.0.0.1 only") })
        }
    }
}
