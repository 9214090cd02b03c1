import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing
import ThinClient

/// The page in a real browser, through a real gateway.
@Suite("The page in a browser", .serialized, .timeLimit(.minutes(5)))
struct DemoPageTests {
    private let browser = BrowserSession(acceptsAnyCertificate: true)

    @Test("Without a session the demo page shows the list and the reason why nothing plays")
    func signedOut() async throws {
        try await RunningDemo.running { demo in
            let run = try await browser.run(
                [
                    .open("\(demo.gateway)/"), .waitFor(".episode"), .waitFor("#sign-in"), .snapshot("list"),
                    .click(".play"),
                    .waitForText("You need to be signed in to watch this episode."),
                    .evaluate("return document.activeElement.id"),
                ] + signIn(password: "wrong") + [
                    .waitForText("The email/password combination is invalid."), .snapshot("refused"),
                ])
            let list = try require(run.snapshots["list"])
            expect(list.text.contains("1. Values First"))
            expect(!list.text.contains("You need to be signed in"))
            expect(run.values, equals: ["email"])
            try expect(empty: require(run.snapshots["refused"]).cookies)
            expect(run.unexpectedProblems, equals: [])
        }
    }

    @Test("After sign-in the requested episode plays, and scripts can read nothing beyond it")
    func signedIn() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let run = try await browser.run(
                [
                    .open("\(gateway.address)/"), .waitFor(".episode"), .click(".play"),
                    .waitForText("You need to be signed in"),
                ] + signIn() + [
                    .waitForText("Signed in as Jo"), .waitFor("#video"), .evaluate(Scripts.playback),
                    .waitFor(".session"), .snapshot("playing"), .evaluate(Scripts.everythingVisible),
                    .open("\(gateway.address)/"), .waitForText("Signed in as Jo"),
                ])
            let playing = try require(run.snapshots["playing"])
            expect(playing.text.contains("Values First"))
            expect(
                playing.cookies,
                equals: [.init(name: "__Host-cloakroom", httpOnly: true, secure: true, sameSite: "Strict")])
            let playback = try JSONDecoder().decode(
                Scripts.Playback.self, from: Data(try require(run.values[0] ?? nil).utf8))
            #expect(playback.readyState >= 2)
            #expect(playback.currentTime > 0)
            expect(playback.duration, equals: 6)
            expect(playback.width, equals: 480)

            let visible = try require(run.values[1] ?? nil)
            expect(visible.contains(#""email":"jo@example.com""#))
            expect(visible.contains("cookie=[] local=0 session=0"))
            let seen = mock.observations.snapshot()
            let bearers = seen.recent.flatMap { $0.values(of: "Authorization") }.filter { $0.hasPrefix("Bearer ") }
            expect(!bearers.isEmpty)
            for token in Set(bearers) { expect(!visible.contains(token.dropFirst("Bearer ".count))) }
            for word in ["accessToken", "refreshToken", "eyJ", "demo-api-token", "secret"] {
                expect(!visible.contains(word), "\(word)")
            }
            expect(seen.recent.contains { $0.path == "/media/1" && !$0.values(of: "Range").isEmpty })
            expect(run.unexpectedProblems, equals: [])
        }
    }

    @Test("After sign-out nothing plays, and the API receives no request")
    func signOut() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let run = try await browser.run(
                [.open("\(gateway.address)/"), .waitFor(".episode")] + signIn() + [
                    .waitForText("Welcome, Jo."), .click(".play"), .waitFor("#video"), .click("#sign-out"),
                    .waitForText("You are signed out."), .waitUntilGone("#video"), .waitFor("#sign-in"),
                    .snapshot("out"),
                    .click(".play"), .waitForText("You need to be signed in to watch this episode."),
                ])
            try expect(empty: require(run.snapshots["out"]).cookies)
            expect(mock.observations.snapshot().count("GET", "/videos/1"), equals: 1)
            expect(mock.observations.snapshot().count("POST", "/auth/revoke"), equals: 1)
            expect(run.unexpectedProblems, equals: [])
        }
    }

    @Test("Other sessions are listed and can be ended from the page")
    func sessions() async throws {
        try await SampleAppGateway.running { gateway, _ in
            try await CheckedTransport.with(gateway) { client, _ in
                _ = try await client.signIn(email: "jo@example.com", password: "secret")
                let run = try await browser.run(
                    [.open("\(gateway.address)/")] + signIn() + [
                        .waitFor(".session .end"), .snapshot("two"), .click(".session .end"),
                        .waitUntilGone(".session .end"), .snapshot("one"), .click("#sign-out"),
                        .waitForText("You are signed out."),
                    ])
                try expect(require(run.snapshots["two"]).text.contains("End all others"))
                expect(!(try require(run.snapshots["one"]).text.contains("End all others")))
                await expect(clientError { try await client.me() }?.reason, equals: "revoked")
                expect(run.unexpectedProblems, equals: [])
            }
        }
    }

    @Test("The page fits a phone and a desktop, in light and dark colours", arguments: BrowserStep.Scheme.allCases)
    func layout(scheme: BrowserStep.Scheme) async throws {
        try await SampleAppGateway.running { gateway, _ in
            var steps: [BrowserStep] = [.scheme(scheme), .open("\(gateway.address)/"), .waitFor(".episode")]
            let widths = [320, 390, 1_280]
            for width in widths { steps += [.size(width: width, height: 844), .snapshot("out \(width)")] }
            steps += signIn(password: "wrong") + [.waitForText("combination is invalid"), .snapshot("wrong")]
            steps += signIn()
            steps += [.waitForText("Welcome, Jo."), .click(".play"), .waitFor("#video"), .waitFor(".session")]
            for width in widths { steps += [.size(width: width, height: 844), .snapshot("in \(width)")] }
            let run = try await browser.run(steps)
            expect(run.snapshots.count, equals: 7)
            for (name, look) in run.snapshots {
                #expect(look.scrollWidth <= look.clientWidth, "\(name)")
                expect(look.beyondRightEdge, equals: [], "\(name)")
                #expect(look.lowestContrast >= 4.5, "\(name): \(look.lowestContrastText)")
            }
        }
    }
}

/// Fills in the form and submits it.
func signIn(email: String = "jo@example.com", password: String = "secret") -> [BrowserStep] {
    [.type(email, into: "#email"), .type(password, into: "#password"), .press("enter")]
}

extension BrowserRun {
    /// Console messages, except for the 4xx responses that the tests provoke.
    var unexpectedProblems: [String] {
        console.filter { ["SEVERE", "WARNING"].contains($0.level) }
            .filter { !($0.source == "network" && $0.text.contains("the server responded with a status of 4")) }
            .map(\.text)
    }
}
