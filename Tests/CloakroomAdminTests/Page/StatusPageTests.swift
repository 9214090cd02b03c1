import CloakroomCore
import Foundation
import Testing

@testable import CloakroomAdmin

@Suite("Status page")
struct StatusPageTests {
    private let made = SampleStatus()

    private func html(_ made: SampleStatus, _ checks: [ReadinessCheck] = []) throws -> String {
        try #require(StatusPage(made.document(checks)).html())
    }

    @Test("Where there is nothing yet, it says so")
    func empty() throws {
        let html = try html(made)
        for text in [
            "<h1><span class=\"light\" aria-hidden=\"true\"></span>Ready</h1>", "No requests yet.",
            "No one has signed in yet.", "No token was refreshed yet.", "No session has ended yet.",
            "No listener has a certificate", "No telemetry was dropped.", "Nothing malformed has come.",
            "None since the start",
        ] {
            #expect(html.contains(text), "\(text)")
        }
        #expect(!html.contains("What deserves a look"))
        #expect(!html.contains("{{"))
    }

    @Test("It shows what the document says")
    func facts() throws {
        var made = made
        made.config.lastReload = .init(time: SampleStatus.now, problems: ["cloakroom.yaml:3:5: routes.0.path: no"])
        made.upstreams = [
            UpstreamStatus(
                name: "api",
                targets: [
                    .init(
                        address: "http://10.0.0.1:80", circuit: .open,
                        lastFailure: .init(time: SampleStatus.now - .seconds(90), reason: "connection refused"))
                ])
        ]
        made.served(200, route: "video", milliseconds: 12_000)
        let html = try html(made, [ReadinessCheck(name: "session store", isReady: false, detail: "it is gone")])
        for text in [
            "Not ready", "it is gone", "1.2.3", "abcdef0", "0123456789ab", "cloakroom.yaml:3:5: routes.0.path: no",
            "Refused", "Open", "Down", "connection refused", "1\u{202F}min 30\u{202F}s ago", "&gt;\u{202F}10\u{202F}s",
            "2027-01-15 08:00:00 UTC",
        ] {
            #expect(html.contains(text), "\(text)")
        }
    }

    @Test("Nothing that came from outside is markup, in text or in an attribute")
    func escaping() throws {
        var made = made
        // A quotation mark with an accent is one to a browser.
        let hostile = "<script>alert(1)</script>\"\u{301} onload='x' & \u{202E}\u{0}{{version}}"
        made.config = ConfigStatus(
            file: hostile, hash: hostile, loadedAt: SampleStatus.now,
            lastReload: .init(time: SampleStatus.now, problems: [hostile]))
        made.upstreams = [
            UpstreamStatus(
                name: hostile,
                targets: [
                    .init(
                        address: hostile, circuit: .open,
                        lastFailure: .init(time: SampleStatus.now, reason: hostile))
                ])
        ]
        made.certificates = [
            CertificateStatus(listener: hostile, file: hostile, names: [hostile], notAfter: SampleStatus.now)
        ]
        made.served(1, route: hostile, status: 500)
        let html = try html(made, [ReadinessCheck(name: hostile, isReady: false, detail: hostile)])
        #expect(!html.contains("<script"))
        #expect(!html.utf8.contains(0))
        #expect(!html.unicodeScalars.contains("\u{202E}"))
        #expect(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;\u{301} onload=&#39;x&#39; &amp;"))
        #expect(html.contains("{{version}}"), "what is shown is not itself a template")
    }

    @Test("No template shows anything unescaped")
    func template() {
        #expect(!StatusPage.templateText.contains("{{{"))
        #expect(!StatusPage.templateText.contains("{{&"))
        #expect(!StatusPage.templateText.contains("<script"))
    }

    @Test("A gateway with five hundred routes is shown whole, and soon")
    func large() throws {
        for route in 0..<500 {
            for status in [200, 401, 500] { made.served(1, route: "route-\(route)", status: status) }
        }
        let clock = ContinuousClock()
        var page = ""
        let elapsed = try clock.measure { page = try html(made) }
        for route in [0, 250, 499] { #expect(page.contains("route-\(route)<")) }
        // Generous: this is a debug build on a machine with other things to do. A release build takes a small part of it.
        #expect(elapsed < .seconds(3))
    }
}
