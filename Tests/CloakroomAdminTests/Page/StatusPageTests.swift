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

    @Test("Sections without data contain a placeholder")
    func empty() throws {
        let html = try html(made)
        for text in [
            "<h1><span class=\"light\" aria-hidden=\"true\"></span>Serving traffic</h1>", "OK: no alerts.",
            "No requests yet.",
            "No sign-ins yet.", "No token refreshes yet.", "No ended sessions yet.",
            "No listener has a certificate", "No telemetry was dropped.", "No malformed requests.",
            "None since start",
        ] {
            #expect(html.contains(text), "\(text)")
        }
        #expect(!html.contains("Alerts"))
        #expect(!html.contains("{{"))
    }

    @Test("It contains the values of the document")
    func facts() throws {
        var made = made
        made.config.lastReload = .init(time: SampleStatus.now, problems: ["cloakroom.yaml:3:5: routes.0.path: no"])
        made.upstreams = [
            UpstreamStatus(
                name: "api",
                targets: [
                    .init(
                        address: "http://10.0.0.1:80", circuit: .open,
                        lastFailure: .init(time: SampleStatus.now - .seconds(90), reason: "connection refused")),
                    .init(
                        address: "http://api.test:80", peer: "10.0.0.2:80", circuit: .open, condition: .ejected,
                        reason: "5 failures in a row", until: SampleStatus.now + .seconds(7), inFlight: 31),
                ])
        ]
        made.served(200, route: "video", milliseconds: 12_000)
        let html = try html(made, [ReadinessCheck(name: "session store", isReady: false, detail: "it is unreachable")])
        for text in [
            "Not ready", "it is unreachable", "1.2.3", "abcdef0", "0123456789ab",
            "cloakroom.yaml:3:5: routes.0.path: no",
            "Rejected", "Backing off", "Down", "Ejected", "10.0.0.2:80", "5 failures in a row", "in 7\u{202F}s", ">31<",
            "connection refused", "1\u{202F}min 30\u{202F}s ago", "&gt;\u{202F}10\u{202F}s",
            "2027-01-15 08:00:00 UTC",
        ] {
            #expect(html.contains(text), "\(text)")
        }
    }

    @Test("Providers have a section of their own, which is absent without providers")
    func identities() throws {
        var made = made
        #expect(!(try html(made)).contains("Identity providers"))
        made.identities = [
            IdentityStatus(
                name: "company", issuer: "https://id.test/realm", condition: .down, keys: 3, skippedKeys: 1,
                keysFetchedAt: SampleStatus.now - .seconds(90), findings: ["it signs with HS256 (change it)"],
                lastFailure: .init(
                    time: SampleStatus.now - .seconds(7), reason: "the metadata names another issuer",
                    remedy: "copy issuer"))
        ]
        let html = try html(made)
        for text in [
            "Identity providers", "https://id.test/realm", ">Down", "1 unusable", "1\u{202F}min 30\u{202F}s ago",
            "company: it signs with HS256 (change it)", "the metadata names another issuer; copy issuer",
            "7\u{202F}s ago", "href=\"#identities\"",
        ] {
            #expect(html.contains(text), "\(text)")
        }
    }

    @Test("No external text becomes markup, in text or in an attribute")
    func escaping() throws {
        var made = made
        // A browser treats a quotation mark with a combining accent as a quotation mark.
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
        made.identities = [
            IdentityStatus(
                name: hostile, issuer: hostile, findings: [hostile],
                lastFailure: .init(time: SampleStatus.now, reason: hostile, remedy: hostile))
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
        #expect(html.contains("{{version}}"), "displayed text is not itself a template")
    }

    @Test("No template contains an unescaped value")
    func template() {
        #expect(!StatusPage.templateText.contains("{{{"))
        #expect(!StatusPage.templateText.contains("{{&"))
        #expect(!StatusPage.templateText.contains("<script"))
    }

    @Test("A page of five hundred routes is complete, and is rendered quickly")
    func large() throws {
        for route in 0..<500 {
            for status in [200, 401, 500] { made.served(1, route: "route-\(route)", status: status) }
        }
        let clock = ContinuousClock()
        var page = ""
        let elapsed = try clock.measure { page = try html(made) }
        for route in [0, 250, 499] { #expect(page.contains("route-\(route)<")) }
        // Generous, because this is a debug build and the machine may be busy. A release build takes a small fraction
        // of it.
        #expect(elapsed < .seconds(3))
    }
}
