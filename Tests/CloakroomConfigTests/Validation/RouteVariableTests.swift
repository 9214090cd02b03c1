import CloakroomConfig
import TestSupport
import Testing

@Suite("Variables that decide what a route permits")
struct RouteVariableTests {
    private func warnings(_ environment: [String: String]) throws -> [String] {
        try ConfigFixture().load(environment: environment).warnings.map(\.description)
    }

    @Test(
        "A variable that changes what a route of the file permits is a warning, with which a strict check fails",
        arguments: [
            ("REQUIRES_AUTHORIZATION", "false"), ("METHODS", "GET,POST"), ("PATH", "/videos/*"), ("UPSTREAM", "api"),
            ("INJECT", "apiToken"), ("PASS_FIELDS", "X-HTTP-Method-Override"),
        ])
    func looser(_ name: String, _ value: String) throws {
        let variable = "CLOAKROOM_ROUTES_1_" + name
        let found = try warnings([variable: value]).filter { $0.contains("a variable decides") }
        expect(
            found,
            equals: [
                "environment: warning: \(variable): a variable decides what route \"video\" permits"
                    + " (write it into the file: a change of the list gives the variable to another route)"
            ])
        let directory = try ConfigFixture()
        let sources = directory.sources(environment: [variable: value])
        let report = CommandReport.checkConfig(sources, isStrict: true) { _ in [] }
        expect(report.exitCode, equals: 1)
    }

    @Test("A variable that requires authorization, or sets a limit, is no warning")
    func stricter() throws {
        try expect(
            warnings([
                "CLOAKROOM_ROUTES_0_REQUIRES_AUTHORIZATION": "true", "CLOAKROOM_ROUTES_1_BODY_LIMIT": "1MiB",
                "CLOAKROOM_ROUTES_1_DEADLINE": "5s", "CLOAKROOM_SESSION_IDLE_TIMEOUT": "5m",
                "CLOAKROOM_ROUTES_1_STREAM_IDLE": "1m", "CLOAKROOM_ROUTES_1_STREAM_LIFETIME": "1h",
            ]), equals: [])
    }

    @Test("Of the limits of streams only the origins decide what a route permits")
    func origins() throws {
        let variable = "CLOAKROOM_ROUTES_1_STREAM_ORIGINS"
        let found = try warnings([variable: "https://app.example.com", "CLOAKROOM_ROUTES_1_WEBSOCKET": "true"])
        expect(found.filter { $0.contains("a variable decides") }.map { $0.contains(variable) }, equals: [true])
    }

    @Test("A route of variables alone is a warning only if it is public", arguments: [true, false])
    func appended(_ requiresAuthorization: Bool) throws {
        let prefix = "CLOAKROOM_ROUTES_2_"
        let found = try warnings([
            prefix + "NAME": "more", prefix + "METHODS": "GET", prefix + "PATH": "/more", prefix + "UPSTREAM": "api",
            prefix + "REQUIRES_AUTHORIZATION": "\(requiresAuthorization)",
        ])
        expect(
            found.map { $0.contains(prefix + "REQUIRES_AUTHORIZATION") }, equals: (requiresAuthorization ? [] : [true]))
    }
}
