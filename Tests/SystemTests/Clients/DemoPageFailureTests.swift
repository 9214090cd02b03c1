import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// The messages of the page for each kind of failure.
@Suite("Failures on the page in a browser", .serialized, .timeLimit(.minutes(5)))
struct DemoPageFailureTests {
    private let browser = BrowserSession(acceptsAnyCertificate: true)

    @Test("An invalid email address is rejected by the form, and its fields are marked invalid")
    func invalidInput() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let run = try await browser.run(
                [.open("\(gateway.address)/"), .waitFor("#sign-in")] + signIn(email: "jo@@example.com") + [
                    .waitForText("Enter a valid email address and a password."),
                    .evaluate("return document.querySelector('#email').getAttribute('aria-invalid')"),
                    .evaluate("return document.querySelector('#form-message').dataset.code"),
                    .evaluate("return document.querySelector('#password').value"),
                ])
            expect(run.values, equals: ["true", "invalid_input", ""])
            expect(mock.observations.snapshot().count("POST", "/auth"), equals: 0)
        }
    }

    @Test("After too many wrong passwords the page shows a countdown and disables the button")
    func throttled() async throws {
        try await SampleAppGateway.running { gateway, _ in
            let run = try await browser.run(
                [.open("\(gateway.address)/"), .waitFor("#sign-in"), .evaluate(Scripts.wrongPasswords)] + signIn() + [
                    .waitForText("Too many attempts. Try again later. ("), .waitFor("#submit:disabled"),
                    .waitForText("You may try again now."), .waitFor("#submit:enabled"),
                ] + signIn() + [.waitForText("Welcome, Jo.")])
            expect(run.values, equals: ["429"])
            expect(run.unexpectedProblems, equals: [])
        }
    }

    @Test("A failure of the API is shown with the page's message, and a retry works")
    func upstreamError() async throws {
        try await SampleAppGateway.running { gateway, mock in
            mock.faults.failNext("GET", "/episodes", statuses: [500])
            let run = try await browser.run([
                .open("\(gateway.address)/"), .waitForText("The list of episodes could not be fetched."),
                .snapshot("failed"),
                .click("#retry"), .waitFor(".episode"), .waitUntilGone("#message"),
            ])
            expect(!(try require(run.snapshots["failed"]).text.contains("injected by the mock")))
        }
    }

    @Test("An unreachable API and an invalid response are shown with the routes' messages")
    func badUpstream() async throws {
        try await ScriptedServer.run { port, upstream in
            upstream.respond(to: "GET /episodes", with: "nonsense\r\n\r\n")
            try await SampleAppGateway.running(api: "http://127.0.0.1:\(port)") { gateway, _ in
                let run = try await browser.run([
                    .open("\(gateway.address)/"), .waitForText("The list of episodes could not be fetched."),
                    .evaluate("return document.querySelector('#message').dataset.code"),
                ])
                expect(run.values, equals: ["failed_request"])
            }
        }
        let nowhere = "http://127.0.0.1:\(try await BlackholePort(.rejects).port)"
        try await SampleAppGateway.running(api: nowhere) { gateway, _ in
            let run = try await browser.run(
                [
                    .open("\(gateway.address)/"), .waitFor("#retry"),
                    .evaluate("return document.querySelector('#message').dataset.code"), .snapshot("list"),
                ] + signIn() + [
                    .waitForText("Signing in is not available at the moment. Try again later."),
                    .evaluate("return document.querySelector('#form-message').dataset.code"),
                ])
            expect(run.values, equals: ["unreachable", "unreachable"])
            try expect(require(run.snapshots["list"]).text.contains("The service could not be reached."))
        }
    }

    @Test("If the gateway is stopped, the page reports that there is no network")
    func network() async throws {
        try await SampleAppGateway.running { gateway, mock in
            async let watched = browser.run([
                .open("\(gateway.address)/"), .waitFor(".episode"), .evaluate(Scripts.keepsPlaying),
                .waitForText("You need a network connection."),
                .evaluate("return document.querySelector('#message').dataset.code"),
            ])
            try await eventually("the page has its list") {
                mock.observations.snapshot().count("GET", "/images/enums-that-carry-weight.svg") > 0
            }
            gateway.program.send(SIGKILL)
            try await expect(watched.values.last, equals: "network")
        }
    }

    @Test("A session that was ended elsewhere ends on the page too, with the route's message")
    func endedElsewhere() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let run = try await browser.run(
                [.open("\(gateway.address)/"), .waitFor(".episode")] + signIn() + [
                    .waitForText("Welcome, Jo."), .click(".play"), .waitFor("#video"), .evaluate(Scripts.playback),
                    .deleteCookies, .click(".play"),
                    .waitForText("You need to be signed in to watch this episode."), .waitFor("#sign-in"),
                    .waitUntilGone("#video"), .snapshot("out"),
                ])
            expect(!(try require(run.snapshots["out"]).text.contains("Signed in as")))
            expect(mock.observations.snapshot().count("GET", "/videos/1"), equals: 1)
        }
    }
}
