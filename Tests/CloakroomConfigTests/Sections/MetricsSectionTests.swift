import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite struct MetricsSectionTests {
    private func yaml(_ buckets: String) -> String { ConfigFixture.good + "telemetry: { buckets: \(buckets) }\n" }

    private func errors(_ buckets: String) throws -> [String] {
        try ConfigFixture(yaml(buckets)).valueErrors()
    }

    @Test func defaultsBeginAt100Microseconds() throws {
        let buckets = try ConfigFixture().load().configuration.metrics.buckets
        expect(buckets.first, equals: 0.0001)
        expect(buckets == buckets.sorted() && Set(buckets).count == buckets.count)
        #expect(buckets.count <= MetricsConfiguration.maxBuckets)
        // Rules and panels of other services name these.
        let conventional = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
        expect(Set(conventional).isSubset(of: buckets))
    }

    @Test func boundsCanBeSet() throws {
        let configuration = try ConfigFixture(yaml("[0.00001, 0.25, 3600]")).load().configuration
        expect(configuration.metrics.buckets, equals: [0.00001, 0.25, 3_600])
        let most = "[" + (1...31).map(String.init).joined(separator: ", ") + "]"
        let count = try ConfigFixture(yaml(most)).load().configuration.metrics.buckets.count
        expect(count, equals: 31)
    }

    @Test(arguments: [
        ("[1, 0.5]", "must be in ascending order: 0.5 follows 1 (sort the bounds, and write each one once)"),
        ("[0.00002, 0.00002]", "must be in ascending order: 0.00002 follows 0.00002"),
        ("[0]", "must be in the allowed range, not 0 (write 0.00001 to 3600 seconds)"),
        ("[3601]", "must be in the allowed range, not 3601"),
        ("[5ms]", #"must be a number of seconds, not "5ms" (write 0.005 for 5 ms, without a unit)"#),
        ("[]", "must not be empty"),
        (
            "[" + (1...32).map(String.init).joined(separator: ", ") + "]",
            "must have at most 31 bounds, not 32"
        ),
    ])
    func invalidBoundsAreErrors(buckets: String, error: String) throws {
        let found = try errors(buckets)
        expect(found.count, equals: 1)
        expect(found.first?.contains(": telemetry.buckets"), equals: true)
        expect(found.first?.contains(": " + error), equals: true)
    }
}
