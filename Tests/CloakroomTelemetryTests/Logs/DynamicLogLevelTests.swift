import CloakroomCore
import Logging
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("The log level")
struct DynamicLogLevelTests {
    private func messages(
        _ format: LoggingConfiguration.Format, _ body: (GatewayTelemetry) -> Void
    ) async throws -> [String] {
        let pipe = try LinePipe()
        var settings = TelemetrySettings()
        settings.logFileDescriptor = pipe.writeEnd
        settings.logFormat = format
        let telemetry = GatewayTelemetry(settings: settings)
        body(telemetry)
        telemetry.logWriter.shutdown()
        let text = await pipe.text()
        return text.split(separator: "\n").map(String.init)
    }

    @Test(
        "A change applies to existing loggers, in both formats",
        arguments: [LoggingConfiguration.Format.json, .text])
    func change(format: LoggingConfiguration.Format) async throws {
        let lines = try await messages(format) { telemetry in
            let logger = Logger(label: "old") { telemetry.makeLogHandler(label: $0) }
            logger.debug("one")
            logger.info("two")
            telemetry.setLogLevel(.debug)
            logger.debug("three")
            expect(logger.logLevel, equals: .debug)
            telemetry.setLogLevel(.error)
            logger.warning("four")
            logger.error("five")
        }
        expect(lines.count, equals: 3)
        for (line, word) in zip(lines, ["two", "three", "five"]) { expect(line.contains(word)) }
    }

    @Test("A logger with an explicit level keeps it, and its copies have their own levels")
    func ownLevel() async throws {
        let lines = try await messages(.json) { telemetry in
            let logger = Logger(label: "shared") { telemetry.makeLogHandler(label: $0) }
            var own = logger
            own.logLevel = .critical
            telemetry.setLogLevel(.trace)
            own.error("one")
            logger.trace("two")
            expect(own.logLevel, equals: .critical)
        }
        expect(lines.count, equals: 1)
        expect(lines.first?.contains("two"), equals: true)
    }

    @Test("Every level can be set and is returned", arguments: Logger.Level.allCases)
    func everyLevel(level: Logger.Level) {
        let shared = DynamicLogLevel(.info)
        shared.set(level)
        expect(shared.current, equals: level)
        expect(DynamicLogLevel(level).current, equals: level)
    }
}
