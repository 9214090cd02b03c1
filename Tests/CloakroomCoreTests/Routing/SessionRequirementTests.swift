import TestSupport
import Testing

@testable import CloakroomCore

@Suite("What a route requires of a session")
struct SessionRequirementTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    private func judge(
        _ requirement: SessionRequirement, claims: String = "{}", acr: String? = nil, age: Int64? = nil,
        skew: Duration = .zero
    ) throws -> SessionRequirement.Verdict {
        requirement.judge(
            claims: try require(JSONValue(document: Array(claims.utf8))), acr: acr,
            authenticatedAt: age.map { Self.now - .seconds($0) }, now: Self.now, skew: skew)
    }

    @Test(
        "Identity rule 23: a claim is a string, or a list with a string, that is exactly equal",
        arguments: [
            (#"{"groups":"staff"}"#, true), (#"{"groups":["a","editors"]}"#, true), (#"{"groups":[1,"staff"]}"#, true),
            ("{}", false), (#"{"groups":null}"#, false), (#"{"groups":""}"#, false), (#"{"groups":"Staff"}"#, false),
            (#"{"groups":"staff "}"#, false), (#"{"groups":"staff,editors"}"#, false), (#"{"groups":[]}"#, false),
            (#"{"groups":[["staff"]]}"#, false), (#"{"groups":{"staff":true}}"#, false), (#"{"groups":true}"#, false),
            (#"{"Groups":"staff"}"#, false), ("[]", false), (#""staff""#, false),
        ])
    func claims(json: String, isPermitted: Bool) throws {
        let requirement = SessionRequirement(claims: [.init("groups", in: ["staff", "editors"])])
        try expect(judge(requirement, claims: json), equals: (isPermitted ? .permitted : .missingClaim("groups")))
    }

    @Test("A Boolean is equal to its text, a number is not, and texts are compared by bytes")
    func types() throws {
        try expect(
            judge(SessionRequirement(claims: [.init("level", in: ["3"])]), claims: #"{"level":3}"#),
            equals: .missingClaim("level"))
        let verified = SessionRequirement(claims: [.init("email_verified", in: ["true"])])
        try expect(judge(verified, claims: #"{"email_verified":true}"#), equals: .permitted)
        for claims in [#"{"email_verified":false}"#, #"{"email_verified":1}"#, #"{"email_verified":null}"#, "{}"] {
            try expect(judge(verified, claims: claims), equals: .missingClaim("email_verified"))
        }
        let composed = SessionRequirement(claims: [.init("name", in: ["\u{e9}"])])
        try expect(judge(composed, claims: "{\"name\":\"e\u{301}\"}"), equals: .missingClaim("name"))
    }

    @Test("All claims are required")
    func conjunction() throws {
        let requirement = SessionRequirement(claims: [.init("a", in: ["1"]), .init("b", in: ["2"])])
        try expect(judge(requirement, claims: #"{"a":"1","b":"2"}"#), equals: .permitted)
        try expect(judge(requirement, claims: #"{"a":"1"}"#), equals: .missingClaim("b"))
        try expect(judge(requirement, claims: #"{"b":"2"}"#), equals: .missingClaim("a"))
    }

    @Test("Identity rule 24: a provider that ignores acr_values is caught")
    func providerThatIgnoresAcrIsCaught() throws {
        let requirement = SessionRequirement(acr: ["urn:a", "urn:b"])
        try expect(judge(requirement, acr: "urn:b"), equals: .permitted)
        for acr in [nil, "", "urn:c", "URN:A", "urn:a urn:b", "0"] {
            try expect(judge(requirement, acr: acr), equals: .stepUp)
        }
    }

    @Test(
        "Identity rule 24: an authentication that is too old, unknown or in the future is not sufficient",
        arguments: [
            (nil, false), (0, true), (600, true), (601, false), (630, false), (-1, false), (1_000_000, false),
        ] as [(Int64?, Bool)])
    func age(age: Int64?, isPermitted: Bool) throws {
        let requirement = SessionRequirement(maxAge: .seconds(600))
        try expect(judge(requirement, age: age), equals: (isPermitted ? .permitted : .stepUp))
    }

    @Test("The permitted difference of the clocks is added at both ends")
    func skew() throws {
        let requirement = SessionRequirement(maxAge: .seconds(600))
        for (age, isPermitted): (Int64, Bool) in [(630, true), (631, false), (-30, true), (-31, false)] {
            try expect(judge(requirement, age: age, skew: .seconds(30)), equals: (isPermitted ? .permitted : .stepUp))
        }
    }

    @Test("A missing claim is reported before a step-up, which would not help")
    func order() throws {
        let requirement = SessionRequirement(claims: [.init("a", in: ["1"])], acr: ["urn:a"])
        try expect(judge(requirement), equals: .missingClaim("a"))
        try expect(judge(requirement, claims: #"{"a":"1"}"#), equals: .stepUp)
        try expect(judge(.none), equals: .permitted)
        expect(SessionRequirement.none.isEmpty)
    }

    private static let alternatives = SessionRequirement(
        claims: [.init("org", in: ["a"])],
        anyOf: [
            .init(claims: [.init("groups", in: ["staff"])], maxAge: .seconds(60)), .init(acr: ["gold"]),
            .init(claims: [.init("groups", in: ["admins"])]),
        ])

    @Test(
        "Identity rule 30: one alternative has to be met as a whole, besides the other requirements",
        arguments: [
            (#"{"org":"a","groups":"staff"}"#, nil, 60, .permitted),
            (#"{"org":"a","groups":"staff"}"#, nil, 61, .stepUp),
            (#"{"org":"a","groups":"admins"}"#, nil, nil, .permitted), (#"{"org":"a"}"#, "gold", nil, .permitted),
            (#"{"org":"a"}"#, "low", 1, .stepUp), (#"{"groups":"admins"}"#, "gold", 1, .missingClaim("org")),
        ] as [(String, String?, Int64?, SessionRequirement.Verdict)])
    func anyOf(claims: String, acr: String?, age: Int64?, verdict: SessionRequirement.Verdict) throws {
        try expect(judge(Self.alternatives, claims: claims, acr: acr, age: age), equals: verdict)
    }

    @Test("Identity rule 30: without a claim of any alternative a login does not help, unless one requires none")
    func noAlternative() throws {
        var requirement = Self.alternatives
        requirement.anyOf.remove(at: 1)
        try expect(judge(requirement, claims: #"{"org":"a","groups":"x"}"#, age: 1), equals: .missingClaim("groups"))
        requirement.acr = ["gold"]
        try expect(judge(requirement, claims: #"{"org":"a","groups":"x"}"#, age: 1), equals: .missingClaim("groups"))
        try expect(judge(requirement, claims: #"{"org":"a","groups":"admins"}"#, age: 1), equals: .stepUp)
    }

    @Test("A login requests what the first alternative requires whose claims the user has, and no more")
    func stepUp() throws {
        func requested(_ claims: String?) -> SessionRequirement {
            var requirement = Self.alternatives
            requirement.maxAge = .seconds(600)
            return requirement.stepUp(for: claims.flatMap { JSONValue(document: Array($0.utf8)) })
        }
        expect(requested(#"{"groups":"staff"}"#), equals: SessionRequirement(maxAge: .seconds(60)))
        expect(requested(#"{"groups":"admins"}"#), equals: SessionRequirement(maxAge: .seconds(600)))
        for claims in ["{}", nil] {
            expect(requested(claims), equals: SessionRequirement(acr: ["gold"], maxAge: .seconds(600)))
        }
    }

    @Test("RFC 9470 §3: the challenge has the contexts and the age")
    func challenge() {
        expect(
            SessionRequirement(acr: ["urn:a", "urn:b"], maxAge: .seconds(600)).challenge,
            equals: "Bearer error=\"insufficient_user_authentication\","
                + " error_description=\"A different authentication level is required\","
                + " acr_values=\"urn:a urn:b\", max_age=\"600\"")
    }
}
